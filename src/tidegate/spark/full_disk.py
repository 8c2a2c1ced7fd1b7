"""Distinguishes a full disk from other errors of Spark."""

from __future__ import annotations

import errno
import os

_FULL = ("No space left on device", "Disk quota exceeded")


def full_disk(error: Exception) -> OSError | None:
    """The OSError of a full disk, if this error of Spark comes from one; otherwise None. Spark passes on only text, and
    the cause may be anywhere in it.
    """
    text = f"{error} {getattr(error, 'java_exception', '')}"
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) if any(each in text for each in _FULL) else None
