"""How many epochs may fail in a row, and that an epoch is either prepared or cut off."""

from __future__ import annotations

import math

import pytest

from tidegate.core.tolerance import Tolerance
from tidegate.spark.epoch_watch import EpochRefused, EpochWatch, Phase


def test_none_is_tolerated_unless_somebody_says_so():
    assert Tolerance(0).failed(epochs_done=0) is False


def test_so_many_are_tolerated_between_two_epochs_that_are_done():
    tolerance = Tolerance(2)
    answers = [tolerance.failed(done) for done in (3, 3, 4, 4, 4, 5)]
    assert answers == [True, True, True, True, False, True]


def overdue() -> EpochWatch:
    watch = EpochWatch(timeout_seconds=0, min_pause_seconds=0)
    watch.let_in(7)
    return watch


def test_an_epoch_that_was_cut_off_does_not_count_as_prepared():
    watch = overdue()
    assert watch.cut_if_overdue() == 7
    assert watch.cut_if_overdue() is None, "once"
    for step in (watch.computed, watch.prepared):
        with pytest.raises(EpochRefused):
            step()
    watch.left()
    assert watch.phase is Phase.CUT, "for the rest of the run"


def test_an_epoch_that_is_prepared_is_not_cut_off_any_more():
    watch = overdue()
    watch.computed()
    watch.prepared()
    assert watch.cut_if_overdue() is None


def test_only_an_epoch_that_was_let_in_can_take_too_long():
    watch = EpochWatch(timeout_seconds=0, min_pause_seconds=0)
    assert watch.cut_if_overdue() is None
    watch.let_in(7)
    watch.left()
    assert watch.cut_if_overdue() is None


def test_the_pause_begins_with_the_end_of_the_commits():
    watch = EpochWatch(timeout_seconds=math.inf, min_pause_seconds=60)
    assert watch.rest_seconds() <= 0, "there is nothing to rest from before the first epoch"
    watch.let_in(0)
    watch.prepared()
    assert watch.rest_seconds() <= 0
    watch.done()
    assert 59 < watch.rest_seconds() <= 60
