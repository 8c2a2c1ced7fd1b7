"""One finding of a check."""

from __future__ import annotations

from enum import Enum

import msgspec

from tidegate.core.errors import TidegateError


class Health(Enum):
    """The result of a check."""

    OK = "OK"
    WARN = "WARN"
    FAILED = "FAILED"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One line: the subject, its state, the measured value, and the next step."""

    what: str
    health: Health
    detail: str
    next: str = ""


def ok(what: str, detail: str, next_step: str = "") -> Finding:
    return Finding(what=what, health=Health.OK, detail=detail, next=next_step)


def warn(what: str, detail: str, next_step: str) -> Finding:
    return Finding(what=what, health=Health.WARN, detail=detail, next=next_step)


def failed(what: str, detail: str, next_step: str) -> Finding:
    return Finding(what=what, health=Health.FAILED, detail=detail, next=next_step)


def failed_by(what: str, error: TidegateError) -> list[Finding]:
    """Every violation that an error lists, or the error itself."""
    return [
        failed(what, f"{each.code}: expected {each.expected}; found {each.found} ({each.where})", each.next_step)
        for each in error.violations or (error,)
    ]
