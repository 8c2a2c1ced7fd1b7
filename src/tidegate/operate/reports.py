"""Errors as they go over the line and into the history."""

from __future__ import annotations

import signal

import msgspec

from tidegate.core.errors import Code, TidegateError
from tidegate.core.redaction import SECRETS
from tidegate.core.telling import parts_of


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong in a driver. `codes` are those of the single errors; none for an error of the program's own."""

    code: str
    codes: tuple[str, ...]
    what: str
    where: str
    remedy: str
    query: str | None = None
    epoch: int | None = None
    run: int | None = None
    details: dict[str, str | int] = {}
    """Those of the error: a column, a row, a topic, a file."""


def report_of(error: TidegateError) -> Report:
    """An error as a report; of several that stand against a start, each has its say in what follows."""
    single = error.violations or (error,)
    return Report(
        code=error.code,
        codes=tuple(each.code for each in single),
        what=SECRETS.hide(str(error)),
        where=SECRETS.hide(error.where),
        remedy=error.catalogue_entry.remedy.value,
        details=parts_of(error).get("details", {}),
    )


def code_of(label: str) -> Code:
    """The entry of the catalogue with this label."""
    return _BY_LABEL[label]


def driver_died(where: str, returned: int | None) -> TidegateError:
    """For a driver that ended without its last word. `returned`: as of `subprocess`, -N for signal N; None: it was
    killed, and still waits in the kernel."""
    if returned is None:
        how = "SIGKILL, which it has not obeyed yet"
    else:
        how = f"signal {-returned} ({_name(-returned)})" if returned < 0 else f"exit code {returned}"
    return TidegateError(
        Code.DRIVER_DIED,
        expected="a driver that says how it ended",
        found=f"its process ended by {how}",
        where=where,
    )


def driver_stalled(where: str, timeout_seconds: float, step: str | None) -> TidegateError:
    """For a driver that was killed because it did nothing. `step`: how far its start had got, if it was starting."""
    started = "" if step is None else f"; the last step of its start was: {step}"
    return TidegateError(
        Code.DRIVER_STALLED,
        expected=f"progress within {timeout_seconds:g} s (progress_timeout, or the time of the epoch under way)",
        found=f"none: the driver was ended{started}",
        where=where,
    )


_BY_LABEL = {code.label: code for code in Code}


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
