"""Writes the beat of a job: regularly, and when its state changes. No epoch waits for it."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from tidegate.core.effects import Happening
from tidegate.core.errors import TidegateError
from tidegate.core.happenings import EpochDone
from tidegate.core.ledger import PREPARED
from tidegate.core.records import Prepared, decode
from tidegate.core.redaction import SECRETS
from tidegate.operate.beat import Beat, Incarnation, JobState, QueryBeat, ShownSetting, Wrong, write_beat
from tidegate.operate.rhythm import rhythm_of
from tidegate.spark.last_savepoint import LastSavepoint
from tidegate.spark.ticking import Ticking
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder

if TYPE_CHECKING:
    from tidegate.spark.job_status import QueryStatus
    from tidegate.spark.live_job import LiveJob

_RATE_SECONDS = 10.0


class Pulse(Ticking):
    """Writes the state of the job to `beat.json`."""

    def __init__(
        self,
        job_folder: Folder,
        job_id: str,
        settings: Sequence[ShownSetting],
        application: str,
        lease_age: Callable[[], float | None],
        has_taken_part: Callable[[str], bool | None],
    ) -> None:
        """`application`: the id of Spark's application. `lease_age`: seconds since the lease was renewed.
        `has_taken_part`: whether a query has, in the checkpoint across the queries that is under way.
        """
        super().__init__("beat", rhythm_of(job_folder).beat)
        self.incarnation = Incarnation(host=socket.gethostname(), process=os.getpid(), started_at=time.time())
        self._folder = job_folder
        self._job_id = job_id
        self._settings = tuple(settings)
        self._application = application
        self._lease_age = lease_age
        self._has_taken_part = has_taken_part
        self._handle: LiveJob | None = None
        self._lock = threading.Lock()
        self._runs: dict[str, int] = {}
        self._done_at: dict[str, float] = {}
        self._moved_at = time.time()
        self._copied = 0
        self._samples: dict[str, deque[tuple[float, int]]] = {}

    def begin(self, handle: LiveJob) -> None:
        self._handle = handle
        self._write(handle, JobState.RUNNING, "")

    def happened(self, query: str, run: int, happening: Happening) -> None:
        now = time.time()
        with self._lock:
            self._moved_at = now
            self._runs[query] = run
            if isinstance(happening, EpochDone):
                self._done_at[query] = now

    def tick(self) -> None:
        if self._handle is not None:
            self._write(self._handle, JobState.RUNNING, "")

    def last(self, error: BaseException | None) -> None:
        if self._handle is not None:
            said = "" if error is None else _in_a_line(error)
            self._write(self._handle, self._handle.outcome.end_state(error), said, self._handle.outcome.wrong(error))

    def _write(self, handle: LiveJob, state: JobState, error: str, wrong: Wrong | None = None) -> None:
        now = time.time()
        queries = handle.status().queries
        beat = Beat(
            job=handle.name,
            job_id=self._job_id,
            state=state,
            host=self.incarnation.host,
            process=self.incarnation.process,
            started_at=self.incarnation.started_at,
            at=now,
            progress_at=self._progress_at(queries, handle.last_savepoint, now),
            epoch_seconds=handle.epoch_seconds(),
            settings=self._settings,
            queries=tuple(self._query(query, handle, now) for query in queries),
            error=error,
            wrong=wrong,
            application=self._application,
            lease_age_seconds=_rounded(self._lease_age()),
            savepoint=str(last.folder) if (last := handle.last_savepoint.savepoint) is not None else "",
        )
        write_beat(self._folder, beat)

    def _progress_at(self, queries: Sequence[QueryStatus], last: LastSavepoint, now: float) -> float:
        """The time of the last progress.

        Not having an unfinished epoch counts, and so does each byte copied into a savepoint.
        """
        copied = 0 if last.taking is None else last.taking.copying.copied_bytes
        with self._lock:
            if copied != self._copied or not any(query.epoch > query.finished for query in queries):
                self._moved_at = now
            self._copied = copied
            return self._moved_at

    def _query(self, query: QueryStatus, handle: LiveJob, now: float) -> QueryBeat:
        with self._lock:
            run, done_at = self._runs.get(query.uid, 0), self._done_at.get(query.uid)
        computes = query.epoch > query.finished
        return QueryBeat(
            uid=query.uid,
            run=run,
            epoch=query.epoch,
            finished=query.finished,
            rows=query.rows,
            dead_letters=query.dead_letters,
            rows_per_second=self._rate(query, now),
            epoch_ms=query.epoch_ms,
            lag=None if query.behind is None else f"{query.behind:,} rows",
            last_done_at=done_at,
            open_transactions=_open_transactions(handle.folder_of(query.uid), query) if computes else 0,
            behind=query.behind,
            open_seconds=_rounded(handle.figures.of[query.uid].clock.prepared_seconds()) if computes else None,
            behind_barrier=self._has_taken_part(query.uid),
        )

    def _rate(self, query: QueryStatus, now: float) -> float:
        """Rows in a second, over the last ten seconds."""
        samples = self._samples.setdefault(query.uid, deque())
        samples.append((now, query.rows))
        while len(samples) > 2 and now - samples[1][0] >= _RATE_SECONDS:
            samples.popleft()
        (since, rows), seconds = samples[0], now - samples[0][0]
        return round((query.rows - rows) / seconds, 1) if seconds > 0 and since < now else 0.0


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


def _open_transactions(folder: Folder, query: QueryStatus) -> int:
    """The transactions that are prepared and not committed, from unfinished prepared records."""
    found = 0
    storage = open_storage(folder)
    with suppress(TidegateError):  # written just now, or the storage is away: the next beat shows it
        for file in storage.peek_names(PREPARED):
            if file.partition(".")[0].isdigit() and int(file.partition(".")[0]) > query.finished:
                name = f"{PREPARED}/{file}"
                data = storage.peek(name)
                found += 0 if data is None else len(decode(Prepared, data, storage.where(name)).committables)
    return found


def _in_a_line(error: BaseException) -> str:
    if isinstance(error, TidegateError):
        return SECRETS.hide(f"{error.code}: {error.where}: {error.found}")
    return SECRETS.hide(f"{type(error).__name__}: {error}")
