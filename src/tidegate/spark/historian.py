"""Keeps the history of done checkpoints. Events are noted at once, and written in batches."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

from tidegate.core.effects import Happening
from tidegate.core.happenings import (
    DeadLettersWritten,
    EpochDone,
    EpochFailed,
    RowsShownAgain,
    TransactionRedone,
    TransactionsAborted,
)
from tidegate.operate.checkpoints_history import CheckpointsHistory
from tidegate.operate.done_checkpoint import DoneCheckpoint
from tidegate.operate.rhythm import rhythm_of
from tidegate.spark.ticking import Ticking
from tidegate.storages.schemes import Folder

if TYPE_CHECKING:
    from tidegate.spark.live_job import LiveJob


class Historian(Ticking):
    """Feeds `history/checkpoints`."""

    def __init__(self, job_folder: Folder) -> None:
        super().__init__("history of checkpoints", rhythm_of(job_folder).history)
        self._folder = job_folder
        self._history: CheckpointsHistory | None = None
        self._handle: LiveJob | None = None
        self._lock = threading.Lock()
        self._done: list[DoneCheckpoint] = []
        self._aborted: Counter[str] = Counter()
        self._redone: Counter[str] = Counter()
        self._shown_again: Counter[str] = Counter()
        self._dead_letters: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()

    def begin(self, handle: LiveJob) -> None:
        self._handle = handle
        self._history = CheckpointsHistory(self._folder)

    def happened(self, query: str, run: int, happening: Happening) -> None:
        with self._lock:
            match happening:
                case TransactionsAborted(count):
                    self._aborted[query] += count
                case TransactionRedone():
                    self._redone[query] += 1
                case RowsShownAgain(_, _, rows):
                    self._shown_again[query] += rows
                case DeadLettersWritten(_, _, rows):
                    self._dead_letters[query] += rows
                case EpochFailed(tolerated=True, in_new_process=False):  # any other one ends the process: see failures
                    self._failed[query] += 1
                case EpochDone():
                    self._done.append(self._entry(query, run, happening))
                case _:
                    pass

    def tick(self) -> None:
        with self._lock:
            done, self._done = self._done, []
        if self._history is not None and done:
            self._history.add(done)

    def last(self, error: BaseException | None) -> None:
        self.tick()

    def _entry(self, query: str, run: int, done: EpochDone) -> DoneCheckpoint:
        times = None if run == 0 or self._handle is None else self._handle.figures.newest_times(query)
        return DoneCheckpoint(
            query=query,
            epoch=done.epoch,
            run=run,
            at=time.time(),
            duration_ms=None if times is None else round(times.total_ms, 2),
            rows=done.rows,
            aborted=self._aborted.pop(query, 0),
            redone=self._redone.pop(query, 0),
            shown_again=self._shown_again.pop(query, 0),
            committed=done.transactions,
            dead_letters=self._dead_letters.pop(query, 0),
            failed=self._failed.pop(query, 0),
            phases={} if times is None else times.phases,
            read=None if times is None else times.read,
        )
