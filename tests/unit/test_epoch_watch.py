"""When an epoch is cut off, and when what was cut off counts as stuck."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from tidegate.spark import epoch_watch
from tidegate.spark.epoch_watch import CUT_ENDS_WITHIN_SECONDS, EpochWatch, Phase


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
    assert watch.phase is Phase.CUT
    assert not watch.is_stuck()
    clock.now += CUT_ENDS_WITHIN_SECONDS - 0.1
    assert not watch.is_stuck()
    clock.now += 0.2
    assert watch.is_stuck()


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
