"""What a benchmark does again and again beside its measurement."""

from __future__ import annotations

import threading

import pytest

from bench.repeated import repeated


def test_calls_begin_at_once_and_end_with_the_block() -> None:
    enough, calls = threading.Event(), list[int]()

    def call() -> None:
        calls.append(len(calls))
        if len(calls) == 3:
            enough.set()

    with repeated(call, 0.0):
        assert enough.wait(60)
    at_the_end = len(calls)
    assert at_the_end >= 3
    assert calls == list(range(at_the_end))


def test_a_call_comes_also_in_a_block_that_does_nothing() -> None:
    calls: list[int] = []
    with repeated(lambda: calls.append(1), 3600.0):
        pass
    assert calls == [1]


def test_the_error_of_a_call_is_raised_at_the_end_and_never_hides_that_of_the_block() -> None:
    failed = threading.Event()

    def fail() -> None:
        failed.set()
        raise ValueError("no such process")

    with pytest.raises(ValueError, match="no such process"), repeated(fail, 0.0):
        assert failed.wait(60)
    with pytest.raises(KeyError, match="mine"), repeated(fail, 0.0):
        raise KeyError("mine")
