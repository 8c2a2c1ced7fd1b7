"""One supervisor per job: a lock on `locks/supervisor.lock`, held until the process ends. The file names the holder.

If the job's folder is not on a disk, the lock is one of this machine. The lease refuses the driver of a supervisor on
another machine."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import msgspec

from tidegate.core.errors import Code, TidegateError
from tidegate.core.json_formats import Unreadable, parsed
from tidegate.disk import flocks
from tidegate.disk.durable import Trust, ensure_folder
from tidegate.machine.folder_here import folder_here
from tidegate.operate.beat import Incarnation, Post
from tidegate.storages.schemes import Folder, Where

SUPERVISOR_LOCK = "locks/supervisor.lock"


class Supervising(msgspec.Struct, frozen=True, kw_only=True):
    """The supervisor process of a job and its start time (seconds since 1970)."""

    host: str
    process: int
    since: float = 0.0

    def __str__(self) -> str:
        return str(self.incarnation)

    @property
    def incarnation(self) -> Incarnation:
        """The incarnation that requests to the supervisor name."""
        return Incarnation(host=self.host, process=self.process, started_at=self.since, post=Post.SUPERVISOR)


class SupervisorLock:
    """The right to supervise one job, until the process ends.

    `flock`, not a POSIX lock: it belongs to the open file, so looking at the file elsewhere in the process does not
    drop it.
    """

    def __init__(self, descriptor: int, holder: Supervising) -> None:
        self.holder = holder
        self._descriptor = descriptor

    def release(self) -> None:
        os.close(self._descriptor)


def take_supervisor_lock(job_folder: Where, job: str) -> SupervisorLock:
    """Take the lock of `job`; create its folder if missing. Raises SUPERVISOR_ALIVE, naming the holder."""
    path = _lock_of(job_folder)
    with Trust().over(path, "lock a file"):
        ensure_folder(path.parent)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if not flocks.take(descriptor):
                raise supervisor_alive(job, job_folder)
            holder = Supervising(host=socket.gethostname(), process=os.getpid(), since=time.time())
            os.ftruncate(descriptor, 0)
            os.write(descriptor, msgspec.json.encode(holder))
        except BaseException:  # a full disk: the next try must not meet this lock
            os.close(descriptor)
            raise
        return SupervisorLock(descriptor, holder)


def supervisor_lives(job_folder: Where) -> bool:
    """True if the job has a running supervisor."""
    return flocks.is_taken(_lock_of(job_folder))


def supervisor_of(job_folder: Where) -> Supervising | None:
    """The current holder of the lock; None if there is none, or if it wrote no name."""
    return _read(_lock_of(job_folder)) if supervisor_lives(job_folder) else None


def supervisor_alive(job: str, job_folder: Where) -> TidegateError:
    """The error that names the job's running supervisor."""
    path = _lock_of(job_folder)
    return TidegateError(
        Code.SUPERVISOR_ALIVE,
        expected=f"no other `tidegate run` for job `{job}`",
        found=str(_read(path) or "a process that left no name"),
        where=str(path),
        next_step=f"let it run, or end it (`tidegate stop {job}`), then start again",
    )


def _lock_of(job_folder: Where) -> Path:
    return folder_here(Folder.of(job_folder)) / SUPERVISOR_LOCK


def _read(path: Path) -> Supervising | None:
    try:
        return parsed(path.read_bytes(), Supervising)
    except (OSError, Unreadable):
        return None
