"""Drains a job: everything that waits for the watermark is emitted, as at the end of time.

After every query has stopped, each runs once more for its last epochs, and reads nothing new. A query that reads
channels first reads them to their end; the queries that write them are drained by then. The record *drain* exists
before the first of these epochs is written. So the next start resumes the drain of a killed driver.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import NoReturn

from tidegate.checkpoints.drained import DrainRecord
from tidegate.core.drain import (
    add_last_epoch,
    epoch_waits,
    has_come_to_the_end,
    last_epoch_is_due,
    last_epoch_is_written,
    take_back_last_epoch,
)
from tidegate.core.errors import Code, TidegateError
from tidegate.core.levels import Level
from tidegate.core.records import JobRecord
from tidegate.spark.companions import Companion
from tidegate.spark.plan_check import closes_by_watermark
from tidegate.spark.query_run import QueryRun
from tidegate.spark.reading_out import Reins, read_out, run_to_its_end
from tidegate.spark.refusals import cannot_be_drained, cut_off_at_the_stop, drained_error, still_due
from tidegate.spark.until import Until
from tidegate.storages.schemes import Folder

_LOG = logging.getLogger("tidegate")
_RUNS_AT_MOST = 5
"""Most runs of a query: one for the epoch that was cut off at the stop, those at the end of time, and one after a
repair of the log.
"""

_TRIES_AT_THE_END = 3
"""A single failure at the end of time may come from a lost executor; so many come from the program."""

_ONE_EPOCH = {"once": True}
"""Spark's trigger: if its log has an epoch, Spark runs it, reads nothing new, and ends."""


class Draining:
    """The progress of a job's drain. Without a record (at-most-once: no start resumes from anything) it is not
    stored.
    """

    def __init__(self, record: DrainRecord | None) -> None:
        self._record = record
        before = None if record is None else record.read()
        self._was_done = before is not None and bool(before.ended)
        self.goes_on = before is not None
        """True if an earlier driver began the drain: then this start does nothing else."""
        self.stands = before is not None and not self._was_done
        """True if the next start resumes the drain, even after a crash of this driver."""
        self.is_under_way = False
        self.is_done = False

    def begin(self) -> None:
        """Record that the job is being drained.

        From now on each start continues the drain, also after a crash of this driver.
        """
        if self._record is not None:
            self._record.begin()
            self.stands = not self._was_done

    def carry_out(self, runs: Sequence[QueryRun], reins: Reins) -> None:
        """Drain every query. Its run in `runs` has ended and is replaced by the next one."""
        self.is_under_way = True
        for run in list(runs):
            if not self._drain(run, runs, reins):
                return
        self.is_done = True

    def seal(self, companions: Sequence[Companion]) -> None:
        """Mark the checkpoint as drained, at the end of the drain: from now on no start resumes from it."""
        if self._was_done:
            return
        for companion in companions:
            companion.drained()
        if self._record is not None:
            self._record.end()
            self.stands = False

    def _drain(self, ended: QueryRun, runs: Sequence[QueryRun], reins: Reins) -> bool:
        """Run the remaining epochs of a query whose run has ended. Returns False if the stop was cut short before the
        last of them.
        """
        closes_windows = closes_by_watermark(ended.plan.rows, ended.plan.mode)
        tries = _TRIES_AT_THE_END if ended.plan.again_here else 1
        if ended.plan.reads_from and not ended.runner.run(last_epoch_is_written()):
            ended = read_out(ended, reins)
        for _ in range(_RUNS_AT_MOST):
            if reins.is_cut_short():
                return False
            _refuse_to_repeat(ended)
            if not ended.runner.run(add_last_epoch(ended.plan.query, closes_windows=closes_windows)):
                return True
            ended = reins.another(ended)
            try:
                run_to_its_end(ended, reins, partial(_start_once, ended))
            except TidegateError as error:
                tries -= 1
                if not _is_of_the_end(ended, error):
                    raise
                if tries == 0:
                    self._give_up(error, runs)
        raise still_due(str(ended.plan.query), _RUNS_AT_MOST)

    def _give_up(self, error: TidegateError, runs: Sequence[QueryRun]) -> NoReturn:
        """Withdraw the drain, because the last epoch of a query failed at every try, and raise the error. If the last
        epoch of another query already counts, the drain stays: the next start resumes it.
        """
        if self._record is None:
            raise error
        if any(run.runner.run(has_come_to_the_end()) for run in runs):
            raise cannot_be_drained(error, taken_back=False) from error
        for run in runs:
            run.runner.run(take_back_last_epoch())
        self._record.take_back()  # last: until then the next start drains
        self.stands = False
        raise cannot_be_drained(error, taken_back=True) from error


def _refuse_to_repeat(ended: QueryRun) -> None:
    """Raise if the remaining epoch may have been shown, and no epoch may be shown twice."""
    if ended.plan.query.weakest is Level.AT_MOST_ONCE and ended.cut_off is not None:
        raise cut_off_at_the_stop(str(ended.plan.query), ended.cut_off)


def _is_of_the_end(run: QueryRun, error: TidegateError) -> bool:
    """True if the query's own work on its last epoch failed, not a sink, disk or server."""
    if error.catalogue_entry not in _OF_AN_EPOCH or not run.failed_computing:
        return False
    return run.runner.run(last_epoch_is_due())


_OF_AN_EPOCH = frozenset({Code.EPOCH_FAILED, Code.EPOCH_TIMEOUT})


def _start_once(run: QueryRun) -> None:
    if run.runner.run(epoch_waits()):  # recovery may have set it aside; then Spark would read new input
        run.start(_ONE_EPOCH)


def drain_of(folder: Folder, record: JobRecord, level: Level, *, until: Until) -> DrainRecord | None:
    """The record of a drain; None at at-most-once, where no start resumes from anything. A drained job is refused. For
    a bounded job, which has nothing to do, this is logged.
    """
    if level is Level.AT_MOST_ONCE:
        return None
    drain = DrainRecord(folder, record.job_id)
    found = drain.read()
    if found is not None and found.ended:
        drained = drained_error(found, f"job {record.name}, {folder}")
        if until is Until.ASKED:
            raise drained
        _LOG.warning("job %s has finished: %s; %s", record.name, drained.found, drained.next_step)
    return drain
