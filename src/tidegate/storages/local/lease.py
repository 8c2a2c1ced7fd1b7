"""`Lease` on a local disk: two file locks, one of the driver's Python process, one of its JVM."""

from __future__ import annotations

from pathlib import Path

from tidegate.storages.lease import Holder, LeaseState
from tidegate.storages.local.locks import DRIVER_LOCK, DriverLock, acquire, read_holder, wait_for_jvm_lock
from tidegate.storages.local.probe import driver_lives, driver_or_jvm_lives


class LocalLease:
    """The locks in one job's folder. The system releases them when their processes end, so nothing needs renewal."""

    proves_the_engine_dead = True

    def __init__(self, job_folder: str | Path) -> None:
        self._folder = Path(job_folder).absolute()

    def where(self) -> str:
        return str(self._folder / DRIVER_LOCK)

    def take(self, job: str, patience_seconds: float) -> DriverLock:
        lock = acquire(self._folder, job)
        try:
            wait_for_jvm_lock(self._folder, patience_seconds)
        except BaseException:
            lock.release()
            raise
        return lock

    def holder(self) -> Holder | None:
        return read_holder(self._folder)

    def standing(self) -> LeaseState:
        if driver_lives(self._folder):
            return LeaseState.HELD
        return LeaseState.ENDING if driver_or_jvm_lives(self._folder) else LeaseState.FREE
