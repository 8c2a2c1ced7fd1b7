"""Locks that belong to an open file (`flock`): their holder may look at the file elsewhere in its process.

The system answers no question about such a lock. So a look takes a shared one for a moment, and `take` tries more than
once: a look must not turn the owner of a free lock away.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from tidegate.disk.durable import Trust


def take(descriptor: int) -> bool:
    """Take the lock on an open file, until the file is closed. False where another open file has it."""
    for _ in range(_TRIES):
        if _try(descriptor, fcntl.LOCK_EX):
            return True
        time.sleep(_PAUSE_SECONDS)
    return False


def is_taken(path: Path) -> bool:
    """Whether an open file of this process or another one has the lock on `path`. False without such a file."""
    with Trust().over(path, "look at a lock"):
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            return not _try(descriptor, fcntl.LOCK_SH)
        finally:
            os.close(descriptor)


_TRIES = 20
_PAUSE_SECONDS = 0.01


def _try(descriptor: int, lock: int) -> bool:
    try:
        fcntl.flock(descriptor, lock | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
