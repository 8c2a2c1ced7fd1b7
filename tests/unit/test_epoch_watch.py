"""When an epoch is cut off, and when what was cut off counts as stuck."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from tidegate.core.ledger import Query
from tidegate.core.levels import Level
from tidegate.spark import epoch_watch
from tidegate.spark.epoch_watch import CUT_ENDS_WITHIN_SECONDS, EpochPhase, EpochWatch


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(epoch_watch, "time", SimpleNamespace(monotonic=lambda: self.now))


def test_an_epoch_that_a_machine_slept_through_is_cut_off_and_not_stuck(monkeypatch: pytest.MonkeyPatch):
    """It is found an hour late: what was cut off has had no time to end yet."""
    clock = Clock(monkeypatch)
    watch = EpochWatch(10.0, 0.0)
    watch.let_in(3)
    clock.now += 3600
    assert watch.cut_if_overdue() == 3
    assert watch.phase is EpochPhase.CUT
    assert not watch.is_stuck()
    clock.now += CUT_ENDS_WITHIN_SECONDS - 0.1
    assert not watch.is_stuck()
    clock.now += 0.2
    assert watch.is_stuck()


def query(level: Level = Level.EXACTLY_ONCE) -> Query:
    return Query(job="j", job_id="j0", generation=1, uid="q", sources=("s",), sinks=("a",), levels={"a": level})


def test_an_epoch_that_was_cut_off_before_has_more_time_and_the_next_one_has_not(monkeypatch: pytest.MonkeyPatch):
    clock = Clock(monkeypatch)
    watch = EpochWatch(10.0, 0.0)
    watch.times = {3: 20.0}
    watch.let_in(3)
    assert watch.seconds_to_the_end() == 20.0 + CUT_ENDS_WITHIN_SECONDS
    clock.now += 19.9
    assert watch.cut_if_overdue() is None
    watch.left()
    assert watch.seconds_to_the_end() == 0.0
    watch.let_in(4)
    clock.now += 10.0
    assert watch.cut_if_overdue() == 4


@pytest.mark.parametrize(
    ("had", "expected", "following"),
    [
        (None, "within 10 s (checkpointing.timeout)", "the next start gives this epoch 20 s"),
        (40.0, "within 40 s (checkpointing.timeout is 10 s; it was cut off", "the next start gives this epoch 80 s"),
        (640.0, "within 640 s (", "has had 64 times checkpointing.timeout, and gets no more"),
    ],
)
def test_the_error_says_how_much_time_the_epoch_has_at_its_next_try(had: float | None, expected: str, following: str):
    watch = EpochWatch(10.0, 0.0)
    watch.times = {} if had is None else {3: had}
    watch.let_in(3)
    error = watch.timeout_error(3, query())
    assert expected in error.expected
    assert following in error.next_step
    assert "raise checkpointing.timeout" in error.next_step
    assert "its input comes again" in error.next_step


def test_at_at_most_once_no_epoch_comes_again_and_the_error_promises_none():
    watch = EpochWatch(10.0, 0.0)
    watch.let_in(3)
    said = watch.timeout_error(3, query(Level.AT_MOST_ONCE)).next_step
    assert "comes again" not in said
    assert "begins at the newest input" in said


def test_a_stream_that_was_stopped_is_stuck_as_late_as_an_epoch_that_was_cut_off(monkeypatch: pytest.MonkeyPatch):
    clock = Clock(monkeypatch)
    watch = EpochWatch(math.inf, 0.0)
    clock.now += 3600
    assert not watch.is_stuck()
    watch.end()
    clock.now += CUT_ENDS_WITHIN_SECONDS - 0.1
    watch.end()  # asked for again: the first counts
    assert not watch.is_stuck()
    clock.now += 0.2
    assert watch.is_stuck()
