"""When a started job ends by itself."""

from __future__ import annotations

from enum import Enum


class Until(Enum):
    """The end of a job without a request."""

    ASKED = "it runs until an end is requested"
    CAUGHT_UP = "it is bounded: it ends when it has processed the existing input"
