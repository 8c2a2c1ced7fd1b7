"""Errors that several modules of the runtime share: of drained jobs, of restored state, of levels and backends."""

from __future__ import annotations

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import Drain


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


def rest_was_shown(drain: Drain, where: str, next_step: str) -> TidegateError:
    """A drained job cannot begin over in a new generation: its rest would be shown a second time."""
    return TidegateError(
        Code.JOB_DRAINED,
        expected="a job that was not drained",
        found=f"a drain of {drain.since}, which has shown what waited for the end of time",
        where=where,
        next_step=next_step,
    )


def begins_anew(code: Code, job: str, next_step: str) -> TidegateError:
    """An at-most-once job keeps nothing that could be saved, restored or begun over."""
    return TidegateError(
        code,
        expected="a job at exactly-once or at-least-once",
        found="checkpointing.mode = at-most-once: each start begins with empty state, at the newest input",
        where=f"job {job}",
        next_step=next_step,
    )


def other_backend(wanted: str, found: str, where: str, next_step: str) -> TidegateError:
    """State of another backend than the settings ask for, which cannot be changed here."""
    return TidegateError(
        Code.STATE_FORMAT,
        expected=f"state of {wanted}, as state.backend says",
        found=found,
        where=where,
        next_step=next_step,
    )


def not_restored(expected: str, found: str, where: str, next_step: str) -> TidegateError:
    """The state of a savepoint could not be restored. The folder of the job is as it was."""
    return TidegateError(
        Code.RESTORE_STATE,
        expected=expected,
        found=found,
        where=where,
        next_step=f"{next_step}; nothing of the job was changed",
    )
