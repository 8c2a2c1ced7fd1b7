"""Readers share views: however many there are, a job's files are read at a bounded rate."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tidegate.web.watching import Watch


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_hundred_readers_in_a_second_read_once() -> None:
    reads: list[int] = []
    watch = Watch(1.0, Clock())
    assert {watch.view("jobs", lambda: reads.append(1) or "view") for _ in range(100)} == {"view"}
    assert len(reads) == 1


def test_a_view_grows_old() -> None:
    clock, reads = Clock(), list[float]()
    watch = Watch(1.0, clock)
    for clock.now in (0.0, 0.9, 1.0, 1.5, 2.0):
        watch.view("jobs", lambda: reads.append(clock.now))
    assert reads == [0.0, 1.0, 2.0]


def test_readers_at_once_wait_for_one_read() -> None:
    begun, may_end, reads = threading.Event(), threading.Event(), list[int]()

    def read() -> str:
        reads.append(1)
        begun.set()
        assert may_end.wait(10)
        return "view"

    watch = Watch(0.0, Clock())  # no view stays young: only a read under way is shared
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(watch.view, "jobs", read)
        assert begun.wait(10)
        others = [pool.submit(watch.view, "jobs", read) for _ in range(3)]
        may_end.set()
        assert {each.result(10) for each in (first, *others)} == {"view"}
    assert len(reads) <= 4  # those that came behind the end of the first read read anew


def test_an_error_is_not_kept() -> None:
    watch = Watch(60.0, Clock())

    def fails() -> str:
        raise OSError("away")

    with pytest.raises(OSError, match="away"):
        watch.view("jobs", fails)
    assert watch.view("jobs", lambda: "back") == "back"


def test_after_an_action_everything_is_read_anew() -> None:
    watch = Watch(60.0, Clock())
    assert watch.view("jobs", lambda: "before") == "before"
    watch.forget()
    assert watch.view("jobs", lambda: "after") == "after"


def test_what_is_no_longer_asked_for_is_dropped() -> None:
    clock = Clock()
    watch = Watch(1.0, clock)
    for number in range(3_000):
        clock.now = number * 2.0
        watch.view(number, lambda: "view")
    assert len(watch._taken) <= 1_000
