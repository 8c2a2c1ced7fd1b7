"""*drain*, in the job's folder: the job was asked to end for good; and whether it has."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from tidegate.core.records import Drain, decode, encode
from tidegate.storages.opening import open_storage

DRAIN = "drain"


class DrainRecord:
    """The record of one job. It is written before anything of the drain is, and once more when all of it is done."""

    def __init__(self, job_folder: Path, job_id: str) -> None:
        self._storage = open_storage(job_folder)
        self._folder = job_folder
        self._job_id = job_id

    def read(self) -> Drain | None:
        """None also for what an earlier job of this name has left."""
        found = read_drain(self._folder)
        return found if found is not None and found.job_id == self._job_id else None

    def begin(self) -> None:
        """From now on every start resumes the drain, and does nothing else."""
        if self.read() is None:  # of this job: what another one has left is written over
            self._storage.replace(DRAIN, encode(Drain(job_id=self._job_id, since=_now())))

    def end(self) -> None:
        """Everything that waited for the end of time has been emitted and committed."""
        found = self.read()
        if found is not None and not found.ended:
            self._storage.replace(DRAIN, encode(Drain(job_id=self._job_id, since=found.since, ended=_now())))

    def take_back(self) -> None:
        """Take the request back: the next start resumes as before. Not if any query has reached the end."""
        self._storage.set_aside(DRAIN)  # durably, unlike a removal


def read_drain(job_folder: Path) -> Drain | None:
    """What the folder says, whichever job of this name has written it; None where no drain was ever begun."""
    storage = open_storage(job_folder)
    data = storage.read(DRAIN)
    return None if data is None else decode(Drain, data, storage.where(DRAIN))


def is_drained(job_folder: Path) -> bool:
    """Whether the job has been drained, to its end."""
    return drained_at(job_folder) is not None


def drained_at(job_folder: Path, job_id: str | None = None) -> str | None:
    """When the job was drained to its end; None if it was not. `job_id`: another job's drain does not count."""
    found = read_drain(job_folder)
    if found is None or (job_id is not None and found.job_id != job_id):
        return None
    return found.ended or None


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
