"""Where the time of a real epoch went: the history has the time of each phase, and the slow one shows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from tests.integration.place import Place, run
from tests.integration.shelf import ShelfSink
from tidegate import operate
from tidegate.core.records import Answer, Attempt, Committable
from tidegate.operate.done_checkpoint import TimedPhase
from tidegate.sinks.base import Transaction

SECONDS = 0.3
SLOW = (TimedPhase.COMPUTE, TimedPhase.PRE_COMMIT, TimedPhase.COMMIT)


class SlowSink(ShelfSink):
    """Takes its time to write, to pre-commit and to commit."""

    def begin(self, attempt: Attempt) -> Transaction:
        return _SlowTransaction(super().begin(attempt))

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        time.sleep(SECONDS)
        return super().commit(committables)


class _SlowTransaction(Transaction):
    def __init__(self, quick: Transaction) -> None:
        self._quick = quick

    def write(self, batch: pa.RecordBatch) -> None:
        time.sleep(SECONDS)
        self._quick.write(batch)

    def pre_commit(self) -> Committable | None:
        time.sleep(SECONDS)
        return self._quick.pre_commit()

    def abort(self) -> None:
        self._quick.abort()


def test_the_history_says_in_which_phase_an_epoch_was_slow(place: Place, tmp_path: Path) -> None:
    for word in ("sea", "sand"):
        place.write(word)
    job = place.job()
    job.query("query", place.words(job), sinks=[SlowSink("shelf", tmp_path)])
    run(job)
    done = operate.open(str(place.checkpoints), "job").epochs()
    assert [each.epoch for each in done] == [1, 0]
    for each in done:
        assert each.phases.keys() == set(TimedPhase)
        assert each.duration_ms is not None
        assert all(each.phases[slow] >= SECONDS * 1000 for slow in SLOW), each.phases
        assert sum(each.phases.values()) <= each.duration_ms + 1
        assert each.committed == 1
