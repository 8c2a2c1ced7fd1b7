"""Checks if a process holds a lock, without taking it: a driver that tries at the same time must get it.

The check opens the file, and closing any descriptor of it would release a lock that this process holds on it. So a
driver never checks its own lock here, but in memory (`locks.holds`).
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from pathlib import Path

from tidegate.disk.flocks import of_open_file
from tidegate.storages.local.locks import DRIVER_LOCK, JVM_LOCK, holds


def driver_lives(job_folder: str | Path) -> bool:
    """True if a process holds the job's driver lock."""
    return holds(job_folder) or is_locked(Path(job_folder) / DRIVER_LOCK)


def driver_or_jvm_lives(job_folder: str | Path) -> bool:
    """True if a process may still write to the job: its driver, or the JVM that outlives a killed one for a while."""
    return driver_lives(job_folder) or is_locked(Path(job_folder) / JVM_LOCK)


def is_locked(path: Path) -> bool:
    """True if another process holds a lock on the file `path` (POSIX: F_GETLK). False if the file does not exist."""
    return of_open_file(path, _is_locked_by_another)


def _is_locked_by_another(descriptor: int) -> bool:
    answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, _lock_of(fcntl.F_WRLCK))
    return _type_of(answer) != fcntl.F_UNLCK


_BSD = sys.platform == "darwin" or "bsd" in sys.platform
_FIELDS = "qqihh" if _BSD else "hhqqi0q"
"""`struct flock`: start, length, process, type, whence; on Linux type, whence, start, length, process."""


def _lock_of(kind: int) -> bytes:
    fields = (0, 0, 0, kind, os.SEEK_SET) if _BSD else (kind, os.SEEK_SET, 0, 0, 0)
    return struct.pack(_FIELDS, *fields)


def _type_of(answer: bytes) -> int:
    found: int = struct.unpack(_FIELDS, answer)[3 if _BSD else 0]
    return found
