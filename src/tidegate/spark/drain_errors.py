"""What is said of a job that was to be drained and is not, and of one that has been."""

from __future__ import annotations

import logging
from pathlib import Path

from tidegate.checkpoints.drained import DrainRecord
from tidegate.core.errors import Code, TidegateError
from tidegate.core.levels import Level
from tidegate.core.records import Drain, JobRecord

_LOG = logging.getLogger("tidegate")


def drained_error(found: Drain, where: str) -> TidegateError:
    """No start goes on from a drained checkpoint."""
    return TidegateError(
        Code.JOB_DRAINED,
        expected="a checkpoint that a job can go on from",
        found=f"it was drained at {found.ended}: its watermark is at the end of time, and every new row too late",
        where=where,
        next_step="start under another job name or checkpointing.dir: that is a job that begins anew",
    )


def not_drained(where: str, state: str, *, stands: bool) -> TidegateError:
    """The job has ended well, and not as somebody has asked. `stands`: its next start goes on with the drain."""
    return TidegateError(
        Code.JOB_NOT_DRAINED,
        expected="a job that is drained to its end",
        found=f"it is {state}, and was not drained to its end",
        where=where,
        next_step="start it again: the drain goes on" if stands else "start it again, and ask while it runs",
    )


def cut_off_at_the_stop(where: str, epoch: int) -> TidegateError:
    """At-most-once: what waits for the watermark is lost rather than shown twice."""
    return TidegateError(
        Code.JOB_NOT_DRAINED,
        expected="every epoch that was begun to be done, as no epoch runs again at at-most-once",
        found=f"epoch {epoch} was cut off when the job stopped, and may have been shown",
        where=where,
        next_step="allow the stop more time (its timeout, or stop_timeout); the next start begins at the newest input",
    )


def cannot_be_drained(error: TidegateError, *, taken_back: bool) -> TidegateError:
    """The last epoch fails with this error as often as it is tried."""
    back = (
        "the drain is taken back: the next start goes on where the job stopped."
        if taken_back
        else "another query is drained, so the job cannot go back: the next start goes on with the drain."
    )
    mended = "Mend what fails (a timer that is set there must not lie before state.getCurrentWatermarkMs())"
    return TidegateError(
        Code.DRAIN_FAILS,
        expected="an epoch without rows whose watermark is at the end of time, in the year 287,169",
        found=f"{error.code}: {error.found}",
        where=error.where,
        next_step=f"{back} {mended}{', then ask for the drain again' if taken_back else ', then start again'}",
    )


def still_due(where: str, runs: int) -> TidegateError:
    return TidegateError(
        Code.QUERY_FAILED,
        expected="a query that has run what is left of it",
        found=f"an epoch that is still due after {runs} runs",
        where=where,
        next_step="start again: the drain goes on",
    )


def drain_of(folder: Path, record: JobRecord, level: Level, *, bounded: bool) -> DrainRecord | None:
    """The record of a drain; None at at-most-once, where no start resumes from anything. A job that has been
    drained is refused; a bounded one has nothing to do, which is said."""
    if level is Level.AT_MOST_ONCE:
        return None
    drain = DrainRecord(folder, record.job_id)
    found = drain.read()
    if found is not None and found.ended:
        drained = drained_error(found, f"job {record.name}, {folder}")
        if not bounded:
            raise drained
        _LOG.warning("job %s has finished: %s; %s", record.name, drained.found, drained.next_step)
    return drain
