"""A small two-phase sink that does what a test tells it to: refuse, ask for patience, lose, not know."""

from __future__ import annotations

import errno
import json
import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from tidegate import TidegateError, TwoPhaseSink
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
from tidegate.disk.durable import SyncFailed
from tidegate.sinks.base import JournalKeeper, SinkPlan, Transaction


@dataclass
class Moods:
    """What the sink on the driver does next. It stays on the driver."""

    busy: int = 0
    """So many commits answer RETRY; -1: all."""
    loses: bool = False
    """Before the next commit the staged files vanish."""
    unknown: bool = False
    """The next commit answers UNKNOWN."""
    gate: threading.Event | None = None
    """Commits wait for it."""
    commits: int = 0
    visible_after: list[int] = field(default_factory=list[int])
    """The epochs that were committed, in their order."""


class ShelfSink(TwoPhaseSink):
    """Rows as JSON lines: staged in `<folder>/stage`, committed by a rename to `<folder>/shelf`."""

    journal: ClassVar[JournalKeeper] = JournalKeeper.LEDGER
    remembers: ClassVar[bool] = False

    def __init__(self, uid: str, folder: Path, *, refuses: Path | None = None) -> None:
        """While the file `refuses` exists, `pre_commit` fails."""
        super().__init__(uid)
        self.folder = folder
        self.refuses = refuses
        self.moods = Moods()

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "moods": None}

    def check(self, plan: SinkPlan) -> Sequence[TidegateError]:
        return []

    def open(self, plan: SinkPlan) -> None:
        for name in ("stage", "shelf"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)

    def position(self, identity: SinkIdentity) -> Position | None:
        return None

    def begin(self, attempt: Attempt) -> Transaction:
        return _ShelfTransaction(self, attempt)

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        self.moods.commits += 1
        if self.moods.gate is not None:
            self.moods.gate.wait(60)
        if self.moods.busy:
            self.moods.busy -= 1
            return [Answer(outcome=Outcome.RETRY, detail="the shelf is busy") for _ in committables]
        if self.moods.unknown:
            return [Answer(outcome=Outcome.UNKNOWN, detail="the shelf is in the dark") for _ in committables]
        if self.moods.loses:
            self.moods.loses = False
            for committable in committables:
                self.staged(committable.attempt).unlink()
        self.moods.visible_after.append(committables[0].attempt.epoch)
        return [self._commit(committable) for committable in committables]

    def evidence(self, committable: Committable) -> Evidence:
        return Evidence.PRESENT if self.shelved(committable).exists() else Evidence.ABSENT

    def rows(self) -> list[str]:
        """The visible words, sorted."""
        lines = [line for path in (self.folder / "shelf").glob("*") for line in path.read_text().splitlines()]
        return sorted(json.loads(line)["word"] for line in lines)

    def staged(self, attempt: Attempt) -> Path:
        return self.folder / "stage" / f"e{attempt.epoch}-{attempt.name}"

    def shelved(self, committable: Committable) -> Path:
        return self.folder / "shelf" / committable.digest

    def _commit(self, committable: Committable) -> Answer:
        if self.shelved(committable).exists():
            return Answer(outcome=Outcome.ALREADY)
        try:
            self.staged(committable.attempt).rename(self.shelved(committable))
        except FileNotFoundError:
            return Answer(outcome=Outcome.LOST, detail="the staged file has vanished")
        return Answer(outcome=Outcome.COMMITTED)


class StageOnlyShelfSink(ShelfSink):
    """Its stage is said to be the journal: what it loses is lost."""

    journal: ClassVar[JournalKeeper] = JournalKeeper.STAGE


class TalkativeSink(ShelfSink):
    """Says what it is asked, and nothing of whom it serves."""

    def check(self, plan: SinkPlan) -> Sequence[TidegateError]:
        logging.getLogger("tidegate").warning("checked")
        return super().check(plan)

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        logging.getLogger("tidegate").warning("committing %d", len(committables))
        return super().commit(committables)


class FitfulShelfSink(ShelfSink):
    """Refuses an epoch once, while a file named after the epoch is there."""

    def refusal_of(self, epoch: int) -> Path:
        return self.folder / f"refusal-{epoch}"

    def begin(self, attempt: Attempt) -> Transaction:
        refusal = self.refusal_of(attempt.epoch)
        try:
            refusal.unlink()
        except FileNotFoundError:
            return _ShelfTransaction(self, attempt)
        return _RefusedTransaction(self, attempt)


class LosingShelfSink(ShelfSink):
    """The disk below its stage loses what it holds, and says so once."""

    def begin(self, attempt: Attempt) -> Transaction:
        return _LosingTransaction(self, attempt)


class _ShelfTransaction(Transaction):
    def __init__(self, sink: ShelfSink, attempt: Attempt) -> None:
        self._sink = sink
        self._attempt = attempt
        self._rows: list[dict[str, object]] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self._rows.extend(batch.to_pylist())

    def pre_commit(self) -> Committable | None:
        text = "".join(json.dumps(row) + "\n" for row in self._rows)
        self._sink.staged(self._attempt).write_text(text)
        if self._sink.refuses is not None and self._sink.refuses.exists():
            raise ValueError("the shelf refuses")
        digest = committable_digest(self._attempt, text)
        return Committable(attempt=self._attempt, rows=len(self._rows), digest=digest)

    def abort(self) -> None:
        self._sink.staged(self._attempt).unlink(missing_ok=True)


class _RefusedTransaction(_ShelfTransaction):
    def pre_commit(self) -> Committable | None:
        super().pre_commit()
        raise ValueError("the shelf refuses")


class _LosingTransaction(_ShelfTransaction):
    def pre_commit(self) -> Committable | None:
        raise SyncFailed(OSError(errno.EIO, "Input/output error"), "state")
