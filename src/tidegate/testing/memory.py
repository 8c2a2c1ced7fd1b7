"""A sink that keeps its rows in the memory of this process: for tests and for a first look."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from tidegate.core.levels import Level
from tidegate.core.records import Committable, Evidence, Position, SinkIdentity
from tidegate.sinks.standing import PROVES, Entry, standing_of_one
from tidegate.sinks.write_ahead import DecidedEpoch, WriteAheadSink


class MemorySink(WriteAheadSink):
    """A sink in memory. `rows`: the committed rows as dicts, each once, in the order of epochs and tasks.

    Rows and evidence exist only in this object, in the driver's process. A restart in another process begins empty.
    """

    levels: ClassVar[frozenset[Level]] = frozenset(Level)
    remembers: ClassVar[bool] = False

    def __init__(
        self,
        uid: str,
        *,
        select: Sequence[object] | None = None,
        where: object = None,
        delivery: str | None = None,
    ) -> None:
        super().__init__(uid, select=select, where=where, delivery=delivery)
        self.rows: list[dict[str, Any]] = []
        self._ledger: dict[tuple[str, str, str], list[Entry]] = {}

    def publish(self, epoch: DecidedEpoch, batches: Iterable[pa.RecordBatch]) -> None:
        # First all rows, then both lists: a journal that breaks off leaves nothing behind.
        arrived = [row for batch in batches for row in batch.to_pylist()]
        self._ledger.setdefault(_key(epoch.identity), []).append(Entry.of(epoch.committables))
        self.rows.extend(arrived)

    def evidence(self, committable: Committable) -> Evidence:
        attempt = committable.attempt
        at = (attempt.sink.generation, attempt.epoch)
        entries = self._ledger.get(_key(attempt.sink), [])
        found = next((entry for entry in entries if (entry.generation, entry.epoch) == at), None)
        return PROVES[standing_of_one(committable, found, self.position(attempt.sink))]

    def position(self, identity: SinkIdentity) -> Position | None:
        entries = self._ledger.get(_key(identity), [])
        return max(entries, key=lambda entry: (entry.generation, entry.epoch)).position if entries else None

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "rows": [], "_ledger": {}}


def _key(identity: SinkIdentity) -> tuple[str, str, str]:
    return identity.job, identity.query, identity.sink
