"""What a start opens a job's savepoint and its own sources for."""

from __future__ import annotations

from enum import Enum


class Opens(Enum):
    """The purpose of opened sources, and of an opened savepoint."""

    START = "a start: they may write"
    RESTORE = "a restore: they are looked at, and hold what they look at"
    CHECK = "a check of the program: nothing may be written"
