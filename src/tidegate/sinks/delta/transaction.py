"""The transaction of the Delta sink, in a task: it stages Parquet files, and gathers their statistics."""

from __future__ import annotations

import dataclasses
from typing import IO, Any, cast

import msgspec
import pyarrow as pa

from tidegate.core.records import Attempt, Committable
from tidegate.sinks.base import Transaction
from tidegate.sinks.delta.declared import DeclaredDeltaSink
from tidegate.sinks.delta.stats import stats_of
from tidegate.sinks.delta.types import delta_schema
from tidegate.sinks.files.parquet import ParquetRows
from tidegate.sinks.files.transaction import FileTransaction


class DeltaTransaction(Transaction):
    """Writes one attempt's staged files: those of the file sink, with more in the committable.

    `stats`: a line for each file. `columns`: the types of the rows, as a table's schema has them.
    """

    def __init__(self, sink: DeclaredDeltaSink, attempt: Attempt) -> None:
        self._sink = sink
        self._rows: list[_CountedRows] = []
        self._schema: pa.Schema | None = None
        shape = dataclasses.replace(sink.shape, format=dataclasses.replace(sink.shape.format, writer=self._writer))
        self._files = FileTransaction(sink.files.stage, attempt, shape)

    def write(self, batch: pa.RecordBatch) -> None:
        refused = self._sink.rules.refused(batch)
        if refused:
            raise refused[0]
        self._schema = batch.schema
        self._files.write(batch)

    def pre_commit(self) -> Committable | None:
        committable = self._files.pre_commit()
        if committable is None or self._schema is None:
            return None
        more = {
            "stats": "\n".join(rows.stats for rows in self._rows),
            "columns": msgspec.json.encode(delta_schema(self._schema)).decode(),
        }
        return msgspec.structs.replace(committable, handle={**committable.handle, **more})

    def abort(self) -> None:
        self._files.abort()

    def _writer(self, file: IO[bytes], schema: pa.Schema) -> _CountedRows:
        """Called once for each file, in the order of their numbers."""
        self._rows.append(_CountedRows(file, schema))
        return self._rows[-1]


class _CountedRows(ParquetRows):
    """Knows the statistics of its file when it is closed."""

    stats = ""

    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        super().__init__(file, schema)
        self._schema = schema

    def close(self) -> None:
        super().close()
        self.stats = stats_of(cast("Any", self._writer).writer.metadata, self._schema)
