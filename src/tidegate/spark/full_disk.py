"""A full disk that Spark has come upon, told apart from what else it may fail of."""

from __future__ import annotations

import errno
import os

_FULL = ("No space left on device", "Disk quota exceeded")


def full_disk(error: Exception) -> OSError | None:
    """What a write of one's own would have raised, where this error of Spark's comes from a full disk; else None. Spark
    hands on its text alone, and what caused it stands somewhere below."""
    text = f"{error} {getattr(error, 'java_exception', '')}"
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) if any(each in text for each in _FULL) else None
