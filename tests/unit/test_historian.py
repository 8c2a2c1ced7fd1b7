"""What the history of a job counts: each event of the protocol once, with the epoch that it comes before."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from tidegate.core.effects import Happening
from tidegate.core.happenings import (
    DeadLettersWritten,
    EpochDone,
    EpochFailed,
    RowsShownAgain,
    TransactionRedone,
    TransactionsAborted,
)
from tidegate.core.tolerance import EpochFault
from tidegate.operate.checkpoints_history import read_checkpoints, read_totals
from tidegate.operate.done_checkpoint import DoneCheckpoint
from tidegate.spark.figures import JobFigures
from tidegate.spark.historian import Historian
from tidegate.storages.schemes import Folder

if TYPE_CHECKING:
    from tidegate.spark.live_job import LiveJob


class JobWithFigures:
    """As much of a job as its historian asks for."""

    def __init__(self) -> None:
        self.figures = JobFigures(["query"])


@pytest.fixture
def job() -> JobWithFigures:
    return JobWithFigures()


def told(folder: Path, job: JobWithFigures, *events: tuple[int, Happening]) -> list[DoneCheckpoint]:
    """The history, oldest first, after these events, each with the number of its run."""
    historian = Historian(Folder.of(folder))
    historian.begin(cast("LiveJob", job))
    for run, event in events:
        historian.happened("query", run, event)
    historian.last(None)
    return read_checkpoints(folder)[::-1]


def failed(*, tolerated: bool, in_new_process: bool = False) -> EpochFailed:
    return EpochFailed(1, EpochFault.TIMEOUT, 1, tolerated, in_new_process)


def test_what_happened_before_an_epoch_is_counted_with_it_and_only_once(tmp_path: Path, job: JobWithFigures) -> None:
    first, second = told(
        tmp_path,
        job,
        (0, TransactionsAborted(2)),
        (1, TransactionRedone(0, "sink", 0)),
        (1, RowsShownAgain(0, "sink", 5)),
        (1, DeadLettersWritten(0, "dead", 7)),
        (1, EpochDone(0, 11, transactions=3)),
        (1, EpochDone(1, 12, transactions=4)),
    )
    assert (first.aborted, first.redone, first.shown_again, first.dead_letters) == (2, 1, 5, 7)
    assert (first.rows, first.committed, second.rows, second.committed) == (11, 3, 12, 4)
    assert (second.aborted, second.redone, second.shown_again, second.dead_letters) == (0, 0, 0, 0)
    assert read_totals(tmp_path)["query"].dead_letters == 7


def test_a_failed_try_is_counted_here_only_if_the_epoch_runs_again_in_this_process(
    tmp_path: Path, job: JobWithFigures
) -> None:
    """Any other one ends the process, and its supervisor records the failure."""
    [epoch] = told(
        tmp_path,
        job,
        (1, failed(tolerated=True)),
        (2, failed(tolerated=True)),
        (3, failed(tolerated=True, in_new_process=True)),
        (4, failed(tolerated=False)),
        (5, EpochDone(1, 1)),
    )
    assert epoch.failed == 2


def test_an_epoch_that_recovery_has_completed_has_no_times(tmp_path: Path, job: JobWithFigures) -> None:
    figures = job.figures.of["query"]
    figures.clock.begins(0)
    figures.is_done(0)
    recovered, own = told(tmp_path, job, (0, EpochDone(0, 1)), (1, EpochDone(1, 1)))
    assert (recovered.duration_ms, recovered.phases) == (None, {})
    assert own.duration_ms is not None
