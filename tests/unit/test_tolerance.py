"""How many epochs may fail in a row, and that an epoch is either prepared or cut off."""

from __future__ import annotations

import errno
import math
from pathlib import Path

import pytest

from tidegate.core.errors import TidegateError
from tidegate.core.tolerance import Tolerance
from tidegate.disk.durable import SyncFailed, Trust, storage_error
from tidegate.spark.epoch_watch import EpochPhase, EpochRefused, EpochWatch
from tidegate.spark.run_errors import is_of_the_storage


def test_none_is_tolerated_unless_somebody_says_so():
    assert Tolerance(0).failed(epochs_done=0) is False


def test_so_many_are_tolerated_between_two_epochs_that_are_done():
    tolerance = Tolerance(2)
    answers = [tolerance.failed(done) for done in (3, 3, 4, 4, 4, 5)]
    assert answers == [True, True, True, True, False, True]


def test_a_process_that_is_started_for_a_failed_epoch_goes_on_with_the_count():
    tolerance = Tolerance(2, 1)
    assert tolerance.failed(epochs_done=0) is True
    assert (tolerance.count(0), tolerance.failed(0)) == (2, False)
    assert Tolerance(2, 2).failed(epochs_done=1) is True, "an epoch was done since"
    assert Tolerance(2, 2).count(epochs_done=1) == 0


@pytest.mark.parametrize(
    ("error", "tolerated"),
    [
        (OSError(errno.ENOSPC, "no space"), True),
        (storage_error(OSError(errno.ENOSPC, "no space"), Path("offsets/0"), "write"), True),
        (SyncFailed(OSError(errno.EIO, "lost"), "state"), False),
        (SyncFailed(OSError(errno.ENOSPC, "lost"), "state"), False),
    ],
)
def test_after_a_sync_that_failed_nothing_is_tolerated(error: Exception, tolerated: bool):
    """A second sync of what the disk has lost succeeds, and the run that follows would believe it."""
    assert is_of_the_storage(error) is tolerated


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_sync_that_failed_behind_a_storage_is_not_tolerated_either(number: int):
    with pytest.raises(TidegateError) as raised, Trust().over(Path("offsets/0"), "sync"):
        raise SyncFailed(OSError(number, "lost"), "state")
    assert not is_of_the_storage(raised.value)


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
    assert watch.phase is EpochPhase.CUT, "for the rest of the run"


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
