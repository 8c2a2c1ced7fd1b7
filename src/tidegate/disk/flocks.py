"""Locks that belong to an open file (`flock`): the holder may open the file elsewhere in its process.

The system has no query for such a lock. So a check takes a shared lock for a moment, and `take` tries more than once: a
check must not make `take` fail on a free lock.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

from tidegate.disk.durable import Trust


def take(descriptor: int) -> bool:
    """Take the lock on an open file, until the file is closed. False if another open file has it."""
    for _ in range(_TRIES):
        if _try(descriptor, fcntl.LOCK_EX):
            return True
        time.sleep(_PAUSE_SECONDS)
    return False


def is_taken(path: Path) -> bool:
    """True if an open file of this process or another one has the lock on `path`. False if the file does not exist."""
    return of_open_file(path, lambda descriptor: not _try(descriptor, fcntl.LOCK_SH))


def of_open_file(path: Path, asks: Callable[[int], bool]) -> bool:
    """The answer about the file `path`, which is open for reading meanwhile. False if it does not exist."""
    with Trust().over(path, "look at a lock"):
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            return asks(descriptor)
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
