"""The checkpoints of a whole job that can be restored: `checkpoints/<n>/_metadata.json` for the newest few.

A manifest names the newest done epoch of every query; everything it points at stays in place. `n` counts the job's
checkpoints, one for each epoch that is done, also for those that no manifest was written for.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from tidegate.checkpoints.done_epoch import done_epoch
from tidegate.checkpoints.ingest_layout import Position
from tidegate.checkpoints.ingest_part import needed_from
from tidegate.checkpoints.job_layout import CHECKPOINTS, MANIFEST, checkpoint_folders, retained_numbers
from tidegate.core.ledger import FINISHED_THROUGH, Query
from tidegate.core.records import (
    CheckpointRecord,
    DoneEpoch,
    FinishedThrough,
    decode,
    encode,
)
from tidegate.storages.opening import open_storage


@dataclass(frozen=True, slots=True)
class QueryFolder:
    """A query and the folder of its generation."""

    query: Query
    folder: Path


class RetainedCheckpoints:
    """Keeps the newest `retained` manifests of a job.

    `note` is cheap and called as soon as an epoch is done; `write` catches up, whenever there is time. Of what was
    noted in between, those that `write` would have to remove at once never come to be.
    """

    def __init__(self, job_folder: Path, job: str, job_id: str, queries: Sequence[QueryFolder], retained: int) -> None:
        self._folder = job_folder
        self._storage = open_storage(job_folder)
        self._job = job
        self._job_id = job_id
        self._queries = {each.query.uid: each for each in queries}
        self._ledgers = {each.query.uid: open_storage(each.folder) for each in queries}
        self._retained = retained
        self._done: dict[str, FinishedThrough] = {}
        self._noted: deque[_Noted] = deque(maxlen=retained)
        self._number = max(retained_numbers(job_folder), default=0)
        self._lock = threading.Lock()
        self._writing = threading.Lock()

    def look(self) -> None:
        """Before and after the recovery of every query: one that has nothing to do from then on is part of each
        checkpoint, too."""
        with self._lock:
            for uid in self._queries:
                self._done.update(self._reached(uid))

    def note(self, uid: str) -> None:
        """An epoch of a query is done: that is a checkpoint of the job. From any thread; it reads one small file,
        however many queries the job has."""
        with self._lock:
            self._done.update(self._reached(uid))
            self._note(drained=False)

    def note_drained(self) -> None:
        """Every query has been drained: that is the job's last checkpoint."""
        with self._lock:
            self._note(drained=True)

    def _note(self, *, drained: bool) -> None:
        self._number += 1
        self._noted.append(_Noted(self._number, datetime.now(timezone.utc), dict(self._done), drained))

    def write(self) -> None:
        """Write the manifests of what was noted, oldest first, and remove those that are too many. The threads that
        note checkpoints do not wait for it. After an error the rest is retried, unless newer ones have replaced it."""
        with self._writing:
            with self._lock:
                waiting = list(self._noted)
            for noted in waiting:
                record = self._record(noted)
                if record is not None:
                    self._storage.put_if_absent(_manifest(noted.number), encode(record))
                self._forget(noted)
            self._remove_older()

    def _forget(self, written: _Noted) -> None:
        """Others may have been noted meanwhile, and this one have gone by itself."""
        with self._lock, suppress(ValueError):
            self._noted.remove(written)

    def _record(self, noted: _Noted) -> CheckpointRecord | None:
        """None if Spark and the ledger have moved so far that it can no longer be restored."""
        queries: list[DoneEpoch] = []
        for uid, each in self._queries.items():
            reached = noted.queries.get(uid)
            if reached is None:
                continue
            done = done_epoch(each.query, self._ledgers[uid], reached)
            if done is None:
                return None
            queries.append(done)
        return CheckpointRecord(
            number=noted.number,
            job=self._job,
            job_id=self._job_id,
            at=noted.at.isoformat(timespec="milliseconds"),
            queries=tuple(queries),
            drained=noted.drained,
        )

    def _reached(self, uid: str) -> dict[str, FinishedThrough]:
        """How far a query is: what this very process has written and synced, so it is read without more ado."""
        ledger = self._ledgers[uid]
        data = ledger.peek(FINISHED_THROUGH)
        return {} if data is None else {uid: decode(FinishedThrough, data, ledger.where(FINISHED_THROUGH))}

    def _remove_older(self) -> None:
        for number in retained_numbers(self._folder)[: -self._retained]:
            self._storage.delete(_manifest(number))
        for number in checkpoint_folders(self._folder):
            place = self._folder / CHECKPOINTS / str(number)
            if not (place / MANIFEST).exists():
                self._storage.remove_leftovers(f"{CHECKPOINTS}/{number}")
                with suppress(OSError):  # something of the user's is in it, or it is gone
                    place.rmdir()


@dataclass(frozen=True, slots=True)
class _Noted:
    number: int
    at: datetime
    queries: Mapping[str, FinishedThrough]
    drained: bool


def read_retained(job_folder: Path, number: int) -> CheckpointRecord | None:
    """One retained checkpoint; None when it is not there, or no longer."""
    storage = open_storage(job_folder)
    data = storage.read(_manifest(number))
    return None if data is None else decode(CheckpointRecord, data, storage.where(_manifest(number)))


def retained_from(job_folder: Path, source: str) -> list[Position]:
    """Where the retained checkpoints of a job end in the ingest log of a source: the lines behind are needed."""
    records = [read_retained(job_folder, number) for number in retained_numbers(job_folder)]
    found = [needed_from(record.queries).get(source) for record in records if record is not None]
    return [each for each in found if each is not None]


def _manifest(number: int) -> str:
    return f"{CHECKPOINTS}/{number}/{MANIFEST}"
