"""A sink that comes by a gate once it has prepared: as the last sink of a query, when all others have, too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from tests.integration.shelf import ShelfSink
from tests.surprises.gates import Gate
from tidegate.core.levels import Level
from tidegate.core.records import Answer, Attempt, Committable
from tidegate.sinks.base import Transaction


class PreparedSink(ShelfSink):
    """A shelf whose attempts come by `gate` after `pre_commit`, before Spark hears of them."""

    levels: ClassVar[frozenset[Level]] = frozenset(Level)

    def __init__(self, uid: str, folder: Path, gate: Gate) -> None:
        super().__init__(uid, folder)
        self.gate = gate

    def begin(self, attempt: Attempt) -> Transaction:
        return _Gated(super().begin(attempt), self.gate)

    def commit_straight(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        return self.commit(committables)

    def staged_files(self) -> list[str]:
        """What has not been committed, and not been given up."""
        return sorted(path.name for path in (self.folder / "stage").iterdir())


class _Gated(Transaction):
    def __init__(self, inner: Transaction, gate: Gate) -> None:
        self._inner = inner
        self._gate = gate

    def write(self, batch: pa.RecordBatch) -> None:
        self._inner.write(batch)

    def pre_commit(self) -> Committable | None:
        committable = self._inner.pre_commit()
        self._gate.reach()
        return committable

    def abort(self) -> None:
        self._inner.abort()
