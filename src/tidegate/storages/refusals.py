"""Errors about a job that another process drives."""

from __future__ import annotations

from tidegate.core.errors import Code, TidegateError


def driver_alive(job: str, holder: str, where: str) -> TidegateError:
    """Another driver holds the job's lease. `holder`: that process in words."""
    return TidegateError(
        Code.DRIVER_ALIVE,
        expected=f"no other driver of job `{job}`",
        found=holder,
        where=where,
        next_step=f"wait until it has ended, or end it (`tidegate stop {job}`), then start again",
    )


def lease_lost(job: str, found: str, where: str) -> TidegateError:
    """This driver no longer holds the job's lease."""
    return TidegateError(
        Code.LEASE_LOST,
        expected=f"this driver to hold the lease of job `{job}` until it ends",
        found=found,
        where=where,
    )


def lock_held(expected: str, where: str, next_step: str) -> TidegateError:
    """Another process holds a lock that belongs to the job's driver. The file does not name it."""
    return TidegateError(
        Code.DRIVER_ALIVE, expected=expected, found="its lock is held", where=where, next_step=next_step
    )


def name_taken(where: str) -> TidegateError:
    """A file that is written once has been written by another process."""
    return TidegateError(
        Code.STORAGE_UNUSABLE,
        expected="to create a file of a new name",
        found="another process has created it",
        where=where,
        next_step="start again; if the error comes again, move away what stands there",
    )


def job_runs(purpose: str, where: str, next_step: str) -> TidegateError:
    """The job must not run. `purpose`: what that makes possible, as a clause behind "so that"."""
    return TidegateError(
        Code.DRIVER_ALIVE,
        expected=f"a job that does not run, so that {purpose}",
        found="its driver, or the JVM of one, is alive",
        where=where,
        next_step=next_step,
    )
