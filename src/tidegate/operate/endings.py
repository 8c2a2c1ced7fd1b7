"""The ways in which somebody ends a job."""

from __future__ import annotations

from enum import Enum


class Ending(Enum):
    """How somebody wants a job to end: not at all, with what is under way done, for good, or at once.

    Of several the last in this order counts."""

    NONE = "runs on"
    STOP = "stop"
    DRAIN = "drain"
    CANCEL = "cancel"
