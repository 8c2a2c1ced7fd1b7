"""Ends a job for good: what waits for the watermark comes out, as if time had come to its end.

When every query has stopped, each runs once more for the epochs that are left, and reads nothing new. The record
*drain* stands before the first of them is written, so a driver that is killed on the way goes on at its next start.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from tidegate.checkpoints.drained import DrainRecord
from tidegate.core.drain import add_last_epoch, epoch_waits
from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import Drain
from tidegate.spark.companions import Companion
from tidegate.spark.plan_check import closes_by_watermark
from tidegate.spark.query_run import QueryRun

_LOOK_SECONDS = 0.05
_RUNS_AT_MOST = 5
"""One for what was cut off at the stop, one for the end of time, and some where the log had to be mended."""

_ONE_EPOCH = {"once": True}
"""Spark's trigger: with an epoch in its log it runs that one, reads nothing new, and ends."""


class Draining:
    """How far the drain of a job is. Without a record (at-most-once: no start goes on from anything) it is not kept."""

    def __init__(self, record: DrainRecord | None) -> None:
        self._record = record
        before = None if record is None else record.read()
        self._was_done = before is not None and bool(before.ended)
        self.goes_on = before is not None
        """Whether an earlier driver has begun: then this start runs nothing else."""
        self.is_done = False

    def begin(self) -> None:
        """From now on the drain is gone on with, whatever becomes of this driver."""
        if self._record is not None:
            self._record.begin()

    def carry_out(
        self,
        runs: Sequence[QueryRun],
        another: Callable[[QueryRun], QueryRun],
        look: Callable[[], None],
        is_cut_short: Callable[[], bool],
    ) -> None:
        """Drain every query whose run, of `runs`, has ended. `another` gives the next run of one; `look` is called
        meanwhile. When it is cut short the next start goes on."""
        for run in list(runs):
            if not _drain(run, another, look, is_cut_short):
                return
        self.is_done = True

    def seal(self, companions: Sequence[Companion]) -> None:
        """Mark the checkpoint: from now on no start goes on."""
        if self._was_done:
            return
        for companion in companions:
            companion.drained()
        if self._record is not None:
            self._record.end()


def drained_error(found: Drain, where: str) -> TidegateError:
    """No start goes on from a drained checkpoint."""
    return TidegateError(
        Code.JOB_DRAINED,
        expected="a checkpoint that a job can go on from",
        found=f"it was drained at {found.ended}: its watermark is at the end of time, and every new row too late",
        where=where,
        next_step="start under another job name or checkpointing.dir: that is a job that begins anew",
    )


def _drain(
    ended: QueryRun,
    another: Callable[[QueryRun], QueryRun],
    look: Callable[[], None],
    is_cut_short: Callable[[], bool],
) -> bool:
    """Whether nothing of the query is left."""
    closes_windows = closes_by_watermark(ended.plan.rows, ended.plan.mode)
    for _ in range(_RUNS_AT_MOST):
        if is_cut_short():
            return False
        if not ended.runner.run(add_last_epoch(ended.plan.query, closes_windows=closes_windows)):
            return True
        ended = another(ended)
        _run_once(ended, look, is_cut_short)
    raise TidegateError(
        Code.QUERY_FAILED,
        expected="a query that has run what is left of it",
        found=f"an epoch that is still due after {_RUNS_AT_MOST} runs",
        where=str(ended.plan.query),
        next_step="start again: the drain goes on",
    )


def _run_once(run: QueryRun, look: Callable[[], None], is_cut_short: Callable[[], bool]) -> None:
    try:
        run.open()
        if run.runner.run(epoch_waits()):  # recovery may have put it aside; then Spark would read what is new
            run.start(_ONE_EPOCH)
        while not run.has_ended():
            if is_cut_short():
                run.stop(0)
                break
            look()
            time.sleep(_LOOK_SECONDS)
    finally:
        run.close()
