"""A source whose rows a test adds: for tests and for a first look."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Any, ClassVar

import pyarrow as pa

from tidegate.sources.base import Position, Range, Replay, RowSource, Traits

_PART = "rows"


class MemorySource(RowSource):
    """A source in the memory of this process. `add` adds rows. Each row is read once, so the job needs an ingest log:
    `job.source(uid, source, durable=True)`.

    Rows are kept in this object until they are in the ingest log of a job.
    """

    traits: ClassVar[Traits] = Traits(Replay.NONE)

    def __init__(self, schema: pa.Schema) -> None:
        """`schema`: the columns of the rows."""
        self._schema = schema
        self._rows: list[dict[str, Any]] = []
        self._gone = 0
        self._lock = Lock()

    def add(self, rows: Sequence[dict[str, Any]]) -> None:
        """Add rows after all others. Any thread may call it."""
        with self._lock:
            self._rows.extend(rows)

    def schema(self) -> pa.Schema:
        return self._schema

    def oldest(self) -> Position:
        return {_PART: self._gone}

    def newest(self) -> Position:
        with self._lock:
            return {_PART: self._gone + len(self._rows)}

    def read(self, wanted: Range) -> Iterator[pa.RecordBatch]:
        with self._lock:
            rows = self._rows[wanted.begin - self._gone : wanted.end - self._gone]
        yield pa.RecordBatch.from_pylist(rows, schema=self._schema)

    def done(self, position: Position) -> None:
        with self._lock:
            del self._rows[: position[_PART] - self._gone]
            self._gone = position[_PART]
