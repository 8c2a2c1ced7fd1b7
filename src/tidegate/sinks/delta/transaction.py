"""The transaction of the Delta sink, in a task: it stages Parquet files, and gathers their statistics."""

from __future__ import annotations

import dataclasses
from typing import IO

import msgspec
import pyarrow as pa

from tidegate.core.records import Attempt, Committable
from tidegate.sinks.base import Transaction
from tidegate.sinks.delta.declared import DeclaredDeltaSink, Keyed, refused_by
from tidegate.sinks.delta.stats import stats_of
from tidegate.sinks.delta.types import delta_schema
from tidegate.sinks.files.parquet import ParquetRows
from tidegate.sinks.files.shape import FileShape
from tidegate.sinks.files.stage import FileStage
from tidegate.sinks.files.transaction import FileTransaction


class DeltaTransaction(Transaction):
    """The rows of one attempt, in a task. The committable says what a commit needs that has no program.

    `columns`: the types of the rows, as a table's schema has them. `key`: a line for each column of it. `deleted`: the
    column that marks rows to delete. Rows that replace others are staged in their order, with all their columns: the
    driver looks for the last one of each key, and gives the rows their partitions.
    """

    def __init__(self, sink: DeclaredDeltaSink, attempt: Attempt) -> None:
        self._sink = sink
        self._schema: pa.Schema | None = None
        shape = dataclasses.replace(sink.shape, partition_by=()) if sink.keyed.key else sink.shape
        self._files = CountedFiles(sink.files.stage, attempt, shape)

    def write(self, batch: pa.RecordBatch) -> None:
        refused = refused_by(self._sink, batch)
        if refused:
            raise refused[0]
        self._schema = batch.schema
        self._files.write(batch)

    def pre_commit(self) -> Committable | None:
        committable = self._files.pre_commit()
        if committable is None or self._schema is None:
            return None
        keyed = self._sink.keyed
        more = {"columns": msgspec.json.encode(delta_schema(keyed.written(self._schema))).decode()}
        if keyed.key:
            more["key"] = "\n".join(keyed.key)
        if keyed.deleted is not None:
            more["deleted"] = keyed.deleted
        return msgspec.structs.replace(committable, handle={**committable.handle, **more})

    def abort(self) -> None:
        self._files.abort()


def keyed_of(committable: Committable) -> Keyed:
    """What the rows of a committable replace."""
    handle = committable.handle
    return Keyed(tuple(handle["key"].split("\n")) if "key" in handle else (), handle.get("deleted"))


class CountedFiles(Transaction):
    """Staged files as those of the file sink. `stats` in the committable: their statistics, a line for each file."""

    def __init__(self, stage: FileStage, attempt: Attempt, shape: FileShape) -> None:
        self._rows: list[_CountedRows] = []
        counted = dataclasses.replace(shape, format=dataclasses.replace(shape.format, writer=self._writer))
        self._files = FileTransaction(stage, attempt, counted)

    def write(self, batch: pa.RecordBatch) -> None:
        self._files.write(batch)

    def pre_commit(self) -> Committable | None:
        committable = self._files.pre_commit()
        if committable is None:
            return None
        stats = "\n".join(rows.stats for rows in self._rows)
        return msgspec.structs.replace(committable, handle={**committable.handle, "stats": stats})

    def abort(self) -> None:
        self._files.abort()

    def _writer(self, file: IO[bytes], schema: pa.Schema) -> _CountedRows:
        """Called once for each file, in the order of their numbers."""
        self._rows.append(_CountedRows(file, schema))
        return self._rows[-1]


class _CountedRows(ParquetRows):
    """Knows the statistics of its file when it is closed."""

    stats = ""

    def close(self) -> None:
        super().close()
        self.stats = stats_of(self.footer, self._schema)
