"""The manifests of a job's retained checkpoints: `checkpoints/<n>/_metadata.json`, the newest few.

`n` counts the job's checkpoints. Off a disk it is above the numbers of earlier jobs of this name: a `forget` of such a
job that was paused may remove these at any time.
"""

from __future__ import annotations

from datetime import datetime, timezone

from tidegate.checkpoints.job_layout import CHECKPOINTS, MANIFEST, checkpoint_folders, retained_numbers
from tidegate.core.records import CheckpointRecord, Closing, encode
from tidegate.storages.opening import open_storage
from tidegate.storages.recorded import record_in
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Storage


class Manifests:
    """The manifests of one job, in its driver. Their number is the setting `checkpointing.retained`."""

    def __init__(self, job_folder: Folder, retained: int) -> None:
        self._folder = job_folder
        self._storage = open_storage(job_folder)
        self._retained = retained
        self._written = retained_numbers(job_folder)
        """The numbers of the manifests that are there, rising."""
        self._number = max([*self._written, *forgotten_numbers(self._storage)], default=0)
        self._is_swept = False

    def next_number(self) -> int:
        """The number of a new checkpoint."""
        self._number += 1
        return self._number

    def all(self) -> list[CheckpointRecord]:
        """The manifests that are there, the oldest first."""
        found = (read_retained(self._folder, number) for number in self._written)
        return [record for record in found if record is not None]

    def put(self, record: CheckpointRecord) -> bool:
        """Write a manifest. False if a driver of a forgotten job that was paused has a manifest of this number: that
        one is not this job's to remove, and the next checkpoint has the next number.
        """
        name = _manifest(record.number)
        is_put = (
            self._storage.put_if_absent(name, encode(record))
            or record_in(self._storage, CheckpointRecord, name) == record
        )
        if is_put:
            self._written.append(record.number)
        return is_put

    def remove_older(self) -> list[int]:
        """Remove surplus manifests, and, the first time, what killed processes have left. Returns the numbers of the
        removed manifests.
        """
        removed: list[int] = []
        while len(self._written) > self._retained:
            self._storage.delete(_manifest(self._written[0]))
            removed.append(self._written.pop(0))
            self._remove_folder(removed[-1])
        if not self._is_swept:
            for number in checkpoint_folders(self._folder):
                if number not in self._written:
                    self._remove_folder(number)
        self._is_swept = True
        return removed

    def _remove_folder(self, number: int) -> None:
        self._storage.remove_leftovers(f"{CHECKPOINTS}/{number}")
        self._storage.delete_folder(f"{CHECKPOINTS}/{number}")  # it stays if it holds a file of the user


def close_numbers(job_folder: Folder, job_id: str) -> None:
    """No later job uses the numbers of the checkpoints that this job has here. Off a disk, before they are removed."""
    number = max(checkpoint_folders(job_folder), default=0)
    if number:
        since = datetime.now(timezone.utc).isoformat(timespec="seconds")
        open_storage(job_folder).put_if_absent(_closed(number), encode(Closing(job_id=job_id, since=since)))


def forgotten_numbers(storage: Storage) -> list[int]:
    """The highest numbers of forgotten jobs. `storage`: that of the job's folder."""
    found = (name.partition(".") for name in storage.list(CHECKPOINTS))
    return [int(number) for number, _, kind in found if kind == _CLOSED and number.isdigit()]


def read_retained(job_folder: Folder, number: int) -> CheckpointRecord | None:
    """One retained checkpoint; None if it does not exist, or not any more."""
    return record_in(open_storage(job_folder), CheckpointRecord, _manifest(number))


def _manifest(number: int) -> str:
    return f"{CHECKPOINTS}/{number}/{MANIFEST}"


def _closed(number: int) -> str:
    return f"{CHECKPOINTS}/{number}.{_CLOSED}"


_CLOSED = "closed"
