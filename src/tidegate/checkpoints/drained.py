"""The record *drain* in the job's folder: a drain of the job was requested, and whether it is complete."""

from __future__ import annotations

from datetime import datetime, timezone

from tidegate.checkpoints.succession import standing
from tidegate.core.records import Drain, encode
from tidegate.storages.opening import open_storage
from tidegate.storages.recorded import record_in
from tidegate.storages.schemes import Folder

DRAIN = "drain"


def drain_name(job_folder: Folder, job_id: str) -> str:
    """The name of the record. On a disk locks prove that no process of an earlier job of this name removes it."""
    return DRAIN if job_folder.is_local else f"{DRAIN}.{job_id}"


class DrainRecord:
    """The record of one job. It is written before the drain begins, and again when the drain is complete."""

    def __init__(self, job_folder: Folder, job_id: str) -> None:
        self._storage = open_storage(job_folder)
        self._folder = job_folder
        self._job_id = job_id
        self._name = drain_name(job_folder, job_id)

    def read(self) -> Drain | None:
        """None also for the record of an earlier job of this name."""
        found = _read(self._folder, self._name)
        return found if found is not None and found.job_id == self._job_id else None

    def begin(self) -> None:
        """Record the request. From now on every start only resumes the drain."""
        if self.read() is None:  # of this job: overwrites the record of another job
            self._storage.replace(self._name, encode(Drain(job_id=self._job_id, since=_now())))

    def end(self) -> None:
        """Record that everything that waited for the end of time is emitted and committed."""
        found = self.read()
        if found is not None and not found.ended:
            self._storage.replace(self._name, encode(Drain(job_id=self._job_id, since=found.since, ended=_now())))

    def take_back(self) -> None:
        """Withdraw the request: the next start resumes the job as before. Not allowed if any query has reached the
        end.
        """
        self._storage.set_aside(self._name)  # durably, unlike a removal


def read_drain(job_folder: Folder) -> Drain | None:
    """The record in the folder; None if no drain was ever begun. On a disk it may be of an earlier job of this name."""
    if job_folder.is_local:
        return _read(job_folder, DRAIN)
    job = standing(job_folder)
    return None if job is None else _read(job_folder, drain_name(job_folder, job.job_id))


def is_drained(job_folder: Folder) -> bool:
    """True if the drain of the job is complete."""
    return drained_at(job_folder) is not None


def drained_at(job_folder: Folder, job_id: str | None = None) -> str | None:
    """The time at which the drain was complete; None if it is not. `job_id`: the drain of another job does not
    count.
    """
    found = read_drain(job_folder)
    if found is None or (job_id is not None and found.job_id != job_id):
        return None
    return found.ended or None


def _read(job_folder: Folder, name: str) -> Drain | None:
    return record_in(open_storage(job_folder), Drain, name)


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
