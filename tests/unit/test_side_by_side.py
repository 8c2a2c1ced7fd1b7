"""The same with each of many files, in a few threads."""

from __future__ import annotations

import threading

import pytest

from tests.support.today import turn
from tidegate.disk.side_by_side import THREADS, side_by_side

BOUND_SECONDS = 20.0


def test_what_each_gives_comes_in_their_order_whoever_is_done_first():
    last = threading.Event()

    def act(number: int) -> int:
        if number == THREADS - 1:
            last.set()
        elif number == 0:
            assert last.wait(BOUND_SECONDS), "they are done side by side"
        return number

    assert list(side_by_side(act, range(THREADS))) == list(range(THREADS))


def test_two_large_files_are_done_at_once_where_that_is_asked_for():
    both = threading.Barrier(2)

    def act(number: int) -> int:
        both.wait(BOUND_SECONDS)
        return number

    assert list(side_by_side(act, range(2), at_least=2)) == [0, 1]


@turn(0, of=2)
def test_behind_an_error_nothing_more_begins():
    begun: list[int] = []
    failing = threading.Event()

    def act(number: int) -> None:
        begun.append(number)
        if number == 0:
            failing.set()
            raise LookupError
        assert failing.wait(BOUND_SECONDS)

    with pytest.raises(LookupError):
        list(side_by_side(act, range(100_000)))
    assert len(begun) < 100_000
