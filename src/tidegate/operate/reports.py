"""Errors as values, for the channel to the supervisor and for the history."""

from __future__ import annotations

import signal

import msgspec

from tidegate.core.errors import Code, TidegateError
from tidegate.core.redaction import SECRETS
from tidegate.core.telling import parts_of


class FailureReport(msgspec.Struct, frozen=True, kw_only=True):
    """The error of a driver, as the supervisor receives it. `codes`: the codes of all errors in it; empty if none is
    tidegate's.
    """

    code: str
    codes: tuple[str, ...]
    what: str
    where: str
    remedy: str
    query: str | None = None
    epoch: int | None = None
    run: int | None = None
    details: dict[str, str | int] = {}
    """Details of the error: a column, a row, a topic, a file."""


def report_of(error: TidegateError) -> FailureReport:
    """Convert an error into a report. If several problems prevent a start, the report lists all of them."""
    single = error.violations or (error,)
    return FailureReport(
        code=error.code,
        codes=tuple(each.code for each in single),
        what=SECRETS.hide(str(error)),
        where=SECRETS.hide(error.where),
        remedy=error.catalogue_entry.remedy.value,
        details=parts_of(error).get("details", {}),
    )


def code_of(label: str) -> Code:
    """The catalogue entry with this label."""
    return _BY_LABEL[label]


_SEE_ITS_OUTPUT = "see its last output, logs/spark.log in the job's folder"


def driver_died(where: str, ended: str, see: str = _SEE_ITS_OUTPUT) -> TidegateError:
    """The error for a driver that ended without a final report. `ended`: how. `see`: where its last words are."""
    return TidegateError(
        Code.DRIVER_DIED,
        expected="a final report from the driver",
        found=ended,
        where=where,
        next_step=f"{see}, and `dmesg` for lack of memory; the next start resumes",
    )


def ended_by(returned: int | None) -> str:
    """How a process ended. `returned`: as in `subprocess`, -N for signal N; None: it was killed and has not exited
    yet."""
    if returned is None:
        return "its process ended by SIGKILL, and has not exited yet"
    how = f"signal {-returned} ({_name(-returned)})" if returned < 0 else f"exit code {returned}"
    return f"its process ended by {how}"


def driver_stalled(where: str, timeout_seconds: float, step: str | None) -> TidegateError:
    """The error for a driver that was killed because it made no progress. `step`: the last step of its start, if it was
    starting."""
    started = "" if step is None else f"; the last step of its start was: {step}"
    return TidegateError(
        Code.DRIVER_STALLED,
        expected=f"progress within {timeout_seconds:g} s (progress_timeout, or the time limit of the current epoch)",
        found=f"none, so the driver was killed{started}",
        where=where,
    )


_BY_LABEL = {code.label: code for code in Code}


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
