"""Time limits of requests, taken from the job's settings; and which requests take a savepoint."""

from __future__ import annotations

from tidegate.operate.beat import Beat
from tidegate.operate.control import WITH_SAVEPOINT, Kind
from tidegate.settings.config import DURATION, SETTINGS

_OTHERS_SECONDS = 60.0
_COPY_SECONDS = 600.0
"""For one epoch and the copy of its files."""


def patience_seconds(kind: Kind, beat: Beat | None) -> float:
    """Time limit for the answer, in seconds. `beat`: holds the settings of the job's newest driver."""
    match kind:
        case Kind.CHECKPOINT | Kind.SAVEPOINT | Kind.CANCEL_WITH_SAVEPOINT:
            return _COPY_SECONDS
        case Kind.CANCEL:
            return _OTHERS_SECONDS
        case Kind.STOP | Kind.DRAIN | Kind.STOP_WITH_SAVEPOINT | Kind.DRAIN_WITH_SAVEPOINT:
            more = _COPY_SECONDS if takes_savepoint(kind, beat) else _OTHERS_SECONDS
            return DURATION.read(said(beat).get("stop_timeout", _DEFAULT_STOP_TIMEOUT)) + more


def takes_savepoint(kind: Kind, beat: Beat | None) -> bool:
    """True if the request takes a savepoint. A plain stop does if the job's `savepoints.dir` is set."""
    if kind is Kind.STOP:
        return "savepoints.dir" in said(beat)
    return kind is Kind.SAVEPOINT or kind in WITH_SAVEPOINT


def said(beat: Beat | None) -> dict[str, str]:
    """The settings of the job's newest driver, by name."""
    shown = () if beat is None else beat.settings
    return {each.name: each.value for each in shown if each.origin != "default"}


_DEFAULT_STOP_TIMEOUT = SETTINGS["stop_timeout"].default
