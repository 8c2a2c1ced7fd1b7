"""The messages about a job that was drained, or that should have been drained."""

from __future__ import annotations

import logging
from pathlib import Path

from tidegate.checkpoints.drained import DrainRecord
from tidegate.core.errors import Code, TidegateError
from tidegate.core.levels import Level
from tidegate.core.records import Drain, JobRecord
from tidegate.spark.until import Until

_LOG = logging.getLogger("tidegate")


def drained_error(found: Drain, where: str) -> TidegateError:
    """No start resumes from a drained checkpoint."""
    return TidegateError(
        Code.JOB_DRAINED,
        expected="a checkpoint that a job can resume from",
        found=f"it was drained at {found.ended}: its watermark is at the end of time, and every new row is too late",
        where=where,
        next_step="start a new job, under another job name or checkpointing.dir",
    )


def not_drained(where: str, state: str, *, stands: bool) -> TidegateError:
    """The job has ended well, but without the requested drain. `stands`: its next start resumes the drain."""
    return TidegateError(
        Code.JOB_NOT_DRAINED,
        expected="a job that is drained to its end",
        found=f"it is {state}, and was not drained to its end",
        where=where,
        next_step="start it again: the drain resumes"
        if stands
        else "start it again, and request the drain while it runs",
    )


def cut_off_at_the_stop(where: str, epoch: int) -> TidegateError:
    """At-most-once: rows that wait for the watermark are lost rather than shown twice."""
    return TidegateError(
        Code.JOB_NOT_DRAINED,
        expected="all started epochs to be done, because at-most-once runs no epoch again",
        found=f"epoch {epoch} was cut off when the job stopped, and may have been shown",
        where=where,
        next_step="allow the stop more time (its timeout, or stop_timeout); the next start begins at the newest input",
    )


def cannot_be_drained(error: TidegateError, *, taken_back: bool) -> TidegateError:
    """The last epoch fails with this error at each try."""
    back = (
        "the drain is withdrawn: the next start resumes where the job stopped."
        if taken_back
        else "another query is drained, so the drain cannot be withdrawn: the next start resumes it."
    )
    mended = "Correct the cause (a new timer there must not lie before state.getCurrentWatermarkMs())"
    return TidegateError(
        Code.DRAIN_FAILS,
        expected="an epoch without rows whose watermark is at the end of time, in the year 287,169",
        found=f"{error.code}: {error.found}",
        where=error.where,
        next_step=f"{back} {mended}{', then request the drain again' if taken_back else ', then start again'}",
    )


def still_due(where: str, runs: int) -> TidegateError:
    return TidegateError(
        Code.QUERY_FAILED,
        expected="a query that has run its last epochs",
        found=f"an epoch that is still due after {runs} runs",
        where=where,
        next_step="start again: the drain resumes",
    )


def drain_of(folder: Path, record: JobRecord, level: Level, *, until: Until) -> DrainRecord | None:
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
