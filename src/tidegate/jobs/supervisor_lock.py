"""One supervisor per job: a lock on `locks/supervisor.lock`, held for life, and in the file who holds it."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from pathlib import Path

import msgspec

from tidegate.checkpoints.durable import Trust, ensure_folder
from tidegate.checkpoints.probe import SUPERVISOR_LOCK
from tidegate.core.errors import Code, TidegateError


class Supervising(msgspec.Struct, frozen=True, kw_only=True):
    """Who keeps a job alive."""

    host: str
    process: int

    def __str__(self) -> str:
        return f"process {self.process} on {self.host}"


class SupervisorLock:
    """The right to supervise one job, until the process ends.

    `flock`, not a POSIX lock: it belongs to the open file, so looking at the file elsewhere in the process does not
    drop it.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        os.close(self._descriptor)


def take_supervisor_lock(job_folder: str | Path, job: str) -> SupervisorLock:
    """Take the lock of `job`, whose folder is made if missing. Raises SUPERVISOR_ALIVE, naming the holder."""
    path = Path(job_folder).absolute() / SUPERVISOR_LOCK
    with Trust().over(path, "lock a file"):
        ensure_folder(path.parent)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if not _lock(descriptor):
                raise _supervisor_alive(job, path)
            os.ftruncate(descriptor, 0)
            os.write(descriptor, msgspec.json.encode(Supervising(host=socket.gethostname(), process=os.getpid())))
        except BaseException:  # a full disk: the next try must not find a lock of our own
            os.close(descriptor)
            raise
        return SupervisorLock(descriptor)


def _lock(descriptor: int) -> bool:
    """Whoever only looks holds a shared lock for a moment (`probe.supervisor_lives`): so more than once."""
    for _ in range(_TRIES):
        if _try_lock(descriptor):
            return True
        time.sleep(_PAUSE_SECONDS)
    return False


_TRIES = 20
_PAUSE_SECONDS = 0.01


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _supervisor_alive(job: str, path: Path) -> TidegateError:
    return TidegateError(
        Code.SUPERVISOR_ALIVE,
        expected=f"no other `tidegate run` for job `{job}`",
        found=str(_read(path) or "a process that left no name"),
        where=str(path),
        next_step="let it run, or end it with SIGTERM, then start again",
    )


def _read(path: Path) -> Supervising | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Supervising)
    except (OSError, msgspec.DecodeError):
        return None
