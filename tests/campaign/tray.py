"""A small two-phase sink that can lose what is staged and be asked what is open, as a broker's transactions can.

The shipped sinks of a local disk keep their rows in their stage: nothing is ever written again from the journal, and
nothing is ever open under their names. This one passes through the places of the protocol that they cannot reach.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from tidegate import TidegateError, TwoPhaseSink
from tidegate.core.levels import Level
from tidegate.core.records import (
    Answer,
    Attempt,
    Committable,
    Evidence,
    Outcome,
    Position,
    SinkIdentity,
    committable_digest,
)
from tidegate.sinks.base import JournalKeeper, SinkPlan, Transaction


class TraySink(TwoPhaseSink):
    """Rows as JSON lines: staged in `<folder>/stage`, committed by a rename to `<folder>/shown/<digest>`.

    While the file `<folder>/lose` is there, the next commit removes it and everything that is staged.
    """

    journal: ClassVar[JournalKeeper] = JournalKeeper.LEDGER
    remembers: ClassVar[bool] = False
    levels: ClassVar[frozenset[Level]] = frozenset(Level)

    def __init__(self, uid: str, folder: Path, *, delivery: str | None = None) -> None:
        super().__init__(uid, delivery=delivery)
        self.folder = folder

    def check(self, plan: SinkPlan) -> Sequence[TidegateError]:
        return []

    def open(self, plan: SinkPlan) -> None:
        for name in ("stage", "shown"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)

    def position(self, identity: SinkIdentity) -> Position | None:
        return None

    def begin(self, attempt: Attempt) -> Transaction:
        return _TrayTransaction(self, attempt)

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        if (self.folder / "lose").exists():
            (self.folder / "lose").unlink()
            for name in os.listdir(self.folder / "stage"):
                (self.folder / "stage" / name).unlink()
        return [self._commit(committable) for committable in committables]

    def commit_straight(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        return self.commit(committables)

    def evidence(self, committable: Committable) -> Evidence:
        return Evidence.PRESENT if self._shown(committable).exists() else Evidence.ABSENT

    def pending(self, identity: SinkIdentity) -> Sequence[str]:
        names = sorted(os.listdir(self.folder / "stage"))
        return [name for name in names if name.startswith(f"g{identity.generation}-")]

    def abort(self, transactions: Sequence[str]) -> None:
        for name in transactions:
            (self.folder / "stage" / name).unlink(missing_ok=True)

    def staged(self, attempt: Attempt) -> Path:
        return self.folder / "stage" / f"g{attempt.sink.generation}-e{attempt.epoch}-{attempt.name}"

    def _shown(self, committable: Committable) -> Path:
        return self.folder / "shown" / committable.digest

    def _commit(self, committable: Committable) -> Answer:
        if self._shown(committable).exists():
            return Answer(outcome=Outcome.ALREADY)
        try:
            self.staged(committable.attempt).rename(self._shown(committable))
        except FileNotFoundError:
            return Answer(outcome=Outcome.LOST, detail="the staged file has vanished")
        return Answer(outcome=Outcome.COMMITTED)


class _TrayTransaction(Transaction):
    def __init__(self, sink: TraySink, attempt: Attempt) -> None:
        self._sink = sink
        self._attempt = attempt
        self._lines: list[str] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self._lines.extend(json.dumps(row) for row in batch.to_pylist())

    def pre_commit(self) -> Committable | None:
        text = "".join(f"{line}\n" for line in self._lines)
        self._sink.staged(self._attempt).write_text(text)
        digest = committable_digest(self._attempt, text)
        return Committable(attempt=self._attempt, rows=len(self._lines), digest=digest)

    def abort(self) -> None:
        self._sink.staged(self._attempt).unlink(missing_ok=True)
