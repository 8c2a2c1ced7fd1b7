"""What a check says of one thing that a job stands on."""

from __future__ import annotations

from enum import Enum

import msgspec

from tidegate.core.errors import TidegateError


class Health(Enum):
    """How it is."""

    OK = "OK"
    WARN = "WARN"
    FAILED = "FAILED"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One line: what was looked at, how it is, what was measured, and what to do about it."""

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
