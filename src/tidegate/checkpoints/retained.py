"""The checkpoints of a whole job that can be restored: `checkpoints/<n>/_metadata.json` for the newest few.

A manifest names the newest done epoch of every query; the files it refers to stay in place. `n` counts the job's
checkpoints, one for each done epoch, also those without a manifest.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial

from tidegate.checkpoints.done_epoch import done_epoch, fingerprints_in_force, finished_through
from tidegate.checkpoints.ingest_layout import IngestPosition
from tidegate.checkpoints.ingest_part import needed_from
from tidegate.checkpoints.job_layout import retained_numbers
from tidegate.checkpoints.manifests import Manifests, read_retained
from tidegate.core.ledger import Query
from tidegate.core.records import (
    CheckpointRecord,
    DoneEpoch,
    FinishedThrough,
    OperatorFingerprint,
)
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Storage


@dataclass(frozen=True, slots=True)
class QueryFolder:
    """A query and the folder of its generation."""

    query: Query
    folder: Folder


class RetainedCheckpoints:
    """Keeps the newest manifests of a job; their number is the setting `checkpointing.retained`.

    `note` is called as soon as an epoch is done, and is fast. `write` later writes the noted manifests, except those
    that would be removed again at once.
    """

    def __init__(
        self, job_folder: Folder, job: str, job_id: str, queries: Sequence[QueryFolder], retained: int
    ) -> None:
        self._manifests = Manifests(job_folder, retained)
        self._job = job
        self._job_id = job_id
        self._queries = {each.query.uid: each for each in queries}
        self._ledgers = {each.query.uid: open_storage(each.folder) for each in queries}
        self._done: dict[str, FinishedThrough] = {}
        self._noted: deque[_Noted] = deque(maxlen=retained)
        self._fingerprints: dict[str, tuple[OperatorFingerprint, ...] | None] = {}
        """By query: no start of a query accepts other operators in the middle of a job."""
        self._lock = threading.Lock()
        self._writing = threading.Lock()

    def look(self) -> None:
        """Note the state of every query, before and after its recovery. A query without further epochs is part of each
        checkpoint, too.
        """
        with self._lock:
            self._fingerprints.clear()
            for uid in self._queries:
                self._done.update(self._reached(uid))

    def note(self, uid: str, reached: FinishedThrough | None = None) -> None:
        """Note a done epoch of a query, which makes a new checkpoint of the job. From any thread. `reached`: how far
        the query has come; if it is not known, one small file is read, independent of the number of queries.
        """
        with self._lock:
            self._done.update(self._reached(uid) if reached is None else {uid: reached})
            self._note(drained=False)

    def note_drained(self) -> None:
        """Note the job's last checkpoint: every query has been drained."""
        with self._lock:
            self._note(drained=True)

    def _note(self, *, drained: bool) -> None:
        self._noted.append(_Noted(self._manifests.next_number(), datetime.now(timezone.utc), dict(self._done), drained))

    def write(self) -> None:
        """Write the noted manifests, oldest first, and remove surplus ones. `note` does not wait for it. After an error
        the rest is retried, unless newer manifests have replaced it. Without anything to do it sends no request.
        """
        with self._writing:
            with self._lock:
                waiting = list(self._noted)
            for noted in waiting:
                record = self._record(noted)
                if record is not None:
                    self._manifests.put(record)
                self._forget(noted)
            self._manifests.remove_older()

    def _forget(self, written: _Noted) -> None:
        """Remove a written manifest from the list of those to write.

        The list may have changed since the write began.
        """
        with self._lock, suppress(ValueError):
            self._noted.remove(written)

    def _record(self, noted: _Noted) -> CheckpointRecord | None:
        """None if Spark and the ledger have already removed files of it, so that it cannot be restored."""
        queries: list[DoneEpoch] = []
        for uid, each in self._queries.items():
            reached = noted.queries.get(uid)
            if reached is None:
                continue
            done = done_epoch(each.query, self._ledgers[uid], reached, partial(self._known_fingerprints, uid))
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
        reached = finished_through(self._ledgers[uid])
        return {} if reached is None else {uid: reached}

    def _known_fingerprints(self, uid: str, ledger: Storage) -> tuple[OperatorFingerprint, ...] | None:
        if uid not in self._fingerprints:
            self._fingerprints[uid] = fingerprints_in_force(ledger)
        return self._fingerprints[uid]


@dataclass(frozen=True, slots=True)
class _Noted:
    number: int
    at: datetime
    queries: Mapping[str, FinishedThrough]
    drained: bool


def retained_from(job_folder: Folder, source: str) -> list[IngestPosition]:
    """The position in the ingest log of a source where the retained checkpoints of a job end: later lines are
    needed.
    """
    records = [read_retained(job_folder, number) for number in retained_numbers(job_folder)]
    found = [needed_from(record.queries).get(source) for record in records if record is not None]
    return [each for each in found if each is not None]
