"""The Python half of the local lease: one file lock, held until the process ends, and the record of its holder.

The other half is a lock that the driver's JVM takes on `jvm.lock`. The old run has ended only if both are free.

A POSIX file lock belongs to the process, not to the descriptor: closing ANY descriptor of the file releases it, and a
second lock of the same process is granted. So `driver.lock` is opened once in each process, and a table here refuses a
second start. A forked child inherits the table but not the lock, so entries carry the process that made them.
"""

from __future__ import annotations

import fcntl
import os
import socket
import threading
import time
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType

import msgspec

from tidegate.core.errors import Code, TidegateError
from tidegate.core.json_formats import Unreadable, parsed
from tidegate.disk.durable import Trust, ensure_folder
from tidegate.storages.lease import Holder
from tidegate.storages.opening import open_storage
from tidegate.storages.refusals import driver_alive, lease_lost


class DriverLock:
    """The right of this process to drive one job, until `release` or the end of the process."""

    renewal_seconds = None

    def __init__(self, folder: Path, descriptor: int, holder: Holder, predecessor: Holder | None) -> None:
        self.holder = holder
        self.predecessor = predecessor
        self._folder = folder
        self._descriptor = descriptor

    def release(self) -> None:
        """Release the lock. A second call does nothing. `holder.json` stays, with the last holder.

        In a forked child it releases nothing: the child never held the lock.
        """
        with _table_lock:
            key = next((key for key, lock in _table.items() if lock is self), None)
            if key is not None:
                del _table[key]
                os.close(self._descriptor)

    def engine_lock(self) -> str:
        return str(self._folder / JVM_LOCK)

    def renew(self) -> None:
        if (lost := self.lost()) is not None:
            raise lost

    def lost(self) -> TidegateError | None:
        """The lock is on a file, not on its name. If the name is gone or belongs to another file, a second driver would
        find no lock.
        """
        path = self._folder / DRIVER_LOCK
        with Trust().over(path, "look at a lock"), _table_lock:
            if _held_here(path) is self:
                return None
        return lease_lost(
            self.holder.job,
            f"its lock was released, or the file is missing or replaced; the last recorded holder: {self._named()}",
            str(path),
        )

    def lost_here(self) -> None:
        """The system tells no process that its lock was taken away; `lost` has to look."""

    def age_seconds(self) -> None:
        """The system supervises the lock."""

    def _named(self) -> str:
        return str(read_holder(self._folder) or "none")

    def __enter__(self) -> DriverLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def acquire(job_folder: str | Path, job: str) -> DriverLock:
    """Take the lock of `job`. Its folder is created if missing. Raises DRIVER_ALIVE, with the holder."""
    folder = Path(job_folder).absolute()
    path = folder / DRIVER_LOCK
    with _table_lock, Trust().over(path, "lock a file"):
        ensure_folder(path.parent)
        ours = _held_here(path)
        if ours is not None:
            raise driver_alive(job, f"{ours.holder}: this same process", str(path))
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        predecessor = read_holder(folder)
        try:
            if not _try_lock(descriptor):
                raise driver_alive(job, str(predecessor or "a process that left no name"), str(path))
            holder = _this_process(job)
            open_storage(folder).replace(_HOLDER, msgspec.json.encode(holder))
        except BaseException:
            os.close(descriptor)
            raise
        lock = DriverLock(folder, descriptor, holder, predecessor)
        _table[_identity(descriptor)] = lock
        return lock


def read_holder(job_folder: str | Path) -> Holder | None:
    """The current or last holder of the lock of the job in `job_folder`; None if there never was one, or its record
    cannot be read. For messages only: it does not show whether the lock is held.
    """
    data = open_storage(job_folder).read(_HOLDER)
    try:
        return None if data is None else parsed(data, Holder)
    except Unreadable:
        return None


def holds(job_folder: str | Path) -> bool:
    """True if this process holds the job's DriverLock. Does not open the file."""
    with _table_lock:
        return _held_here(Path(job_folder).absolute() / DRIVER_LOCK) is not None


def jvm_lock_is_free(job_folder: str | Path) -> bool:
    """True if no JVM holds `jvm.lock`.

    Call it only while holding the DriverLock: it tries the lock itself, so two callers at the same time would meet each
    other. It is safe beside a JVM of our own: this process's Python never holds that lock, so closing releases nothing.
    """
    path = Path(job_folder) / JVM_LOCK
    with Trust().over(path, "try a lock"):
        try:
            descriptor = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            return True
        try:
            return _try_lock(descriptor)
        finally:
            os.close(descriptor)


def wait_for_jvm_lock(job_folder: str | Path, timeout_seconds: float) -> None:
    """Wait until no JVM holds `jvm.lock`: a JVM outlives its killed Python by 0.5 to 2.4 s. Hold the DriverLock.

    Raises DRIVER_ALIVE at the timeout, with the previous holder of the DriverLock.
    """
    end = time.monotonic() + timeout_seconds
    while not jvm_lock_is_free(job_folder):
        if time.monotonic() >= end:
            raise _jvm_alive(Path(job_folder).absolute(), timeout_seconds)
        time.sleep(_POLL_SECONDS)


DRIVER_LOCK = "locks/driver.lock"
JVM_LOCK = "locks/jvm.lock"
_HOLDER = "locks/holder.json"
_POLL_SECONDS = 0.05

_table: dict[tuple[int, int], DriverLock] = {}
"""The locks of this process by device and inode of their files: a folder may have several names."""

_table_lock = threading.Lock()


def _held_here(path: Path) -> DriverLock | None:
    """The lock that this process holds on `path`. Does not open the file."""
    with Trust().over(path, "look at a lock"):
        try:
            status = os.stat(path)
        except FileNotFoundError:
            return None
    lock = _table.get((status.st_dev, status.st_ino))
    return lock if lock is not None and lock.holder.process == os.getpid() else None


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # EAGAIN or EACCES: POSIX leaves it to the system
        return False
    return True


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _this_process(job: str) -> Holder:
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return Holder(job=job, host=socket.gethostname(), process=os.getpid(), since=now)


def _jvm_alive(folder: Path, waited_seconds: float) -> TidegateError:
    with _table_lock:
        ours = _held_here(folder / DRIVER_LOCK)
    holder = ours.predecessor if ours is not None else read_holder(folder)
    return TidegateError(
        Code.DRIVER_ALIVE,
        expected=f"the JVM of the last driver to end within {waited_seconds:g} s",
        found=f"it still holds its lock; its driver was {holder or 'a process that left no name'}",
        where=str(folder / JVM_LOCK),
        next_step="end that JVM (the `java` process that it started), then start again",
    )
