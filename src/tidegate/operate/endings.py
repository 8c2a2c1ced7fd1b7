"""The ways to end a job by request."""

from __future__ import annotations

from enum import Enum


class EndMode(Enum):
    """The requested end of a job: none, stop after the current epoch, drain, or cancel.

    If there are several requests, the last one in this order counts.
    """

    NONE = "runs on"
    STOP = "stop"
    DRAIN = "drain"
    CANCEL = "cancel"


class AskedOf(Enum):
    """The start that received the request to end the job."""

    THIS_START = "this start"
    ANOTHER = "an earlier start, or none"
