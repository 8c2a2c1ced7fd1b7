"""How long a request may take by the job's own settings, and whether it gives a savepoint."""

from __future__ import annotations

from tidegate.operate.beat import Beat
from tidegate.operate.control import WITH_SAVEPOINT, Kind
from tidegate.settings.config import DURATION, SETTINGS

_OTHERS_SECONDS = 60.0
_COPY_SECONDS = 600.0
"""For an epoch and the copy of its files."""


def patience_seconds(kind: Kind, beat: Beat | None) -> float:
    """How long the answer may take; `beat` has the settings of the job's newest driver."""
    match kind:
        case Kind.CHECKPOINT | Kind.SAVEPOINT | Kind.CANCEL_WITH_SAVEPOINT:
            return _COPY_SECONDS
        case Kind.CANCEL:
            return _OTHERS_SECONDS
        case Kind.STOP | Kind.DRAIN | Kind.STOP_WITH_SAVEPOINT | Kind.DRAIN_WITH_SAVEPOINT:
            more = _COPY_SECONDS if takes_savepoint(kind, beat) else _OTHERS_SECONDS
            return DURATION.read(said(beat).get("stop_timeout", _DEFAULT_STOP_TIMEOUT)) + more


def takes_savepoint(kind: Kind, beat: Beat | None) -> bool:
    """Whether the request gives a savepoint: a plain stop does where the job's `savepoints.dir` is set."""
    if kind is Kind.STOP:
        return "savepoints.dir" in said(beat)
    return kind is Kind.SAVEPOINT or kind in WITH_SAVEPOINT


def said(beat: Beat | None) -> dict[str, str]:
    """The settings that the job's newest driver was given, by name."""
    shown = () if beat is None else beat.settings
    return {each.name: each.value for each in shown if each.origin != "default"}


_DEFAULT_STOP_TIMEOUT = SETTINGS["stop_timeout"].default
