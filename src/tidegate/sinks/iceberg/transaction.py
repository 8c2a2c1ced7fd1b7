"""The transaction of the Iceberg sink, in a task: it stages Parquet files, and gathers what manifests say of them."""

from __future__ import annotations

import dataclasses
from typing import IO

import msgspec
import pyarrow as pa

from tidegate.core.records import Attempt, Committable
from tidegate.sinks.base import Transaction
from tidegate.sinks.data_files import data_files_of
from tidegate.sinks.files.parquet import ParquetRows
from tidegate.sinks.files.parts import parts_of
from tidegate.sinks.files.transaction import FileTransaction
from tidegate.sinks.iceberg import facts
from tidegate.sinks.iceberg.columns import TableColumns, TableShape
from tidegate.sinks.iceberg.place import folder_at


class IcebergTransaction(Transaction):
    """Writes one attempt's staged files: those of the file sink, with more in the committable.

    `table`: the table's UUID. `location`: its folder. `spec`: the partition spec, `columns`: the columns of the files,
    as the table's metadata writes them. `facts`: a line for each file.
    """

    def __init__(self, table: TableColumns, shape: TableShape, attempt: Attempt) -> None:
        self._table = table
        self._values: dict[str, list[str | None]] = {}
        self._rows: list[ParquetRows] = []
        self._names: list[str] = []
        mine = dataclasses.replace(
            shape, columns=table, values=self._values, format=dataclasses.replace(shape.format, writer=self._writer)
        )
        self._files = FileTransaction(data_files_of(folder_at(self._table.location)).stage, attempt, mine)

    def write(self, batch: pa.RecordBatch) -> None:
        self._files.write(batch)
        self._names = batch.schema.names

    def pre_commit(self) -> Committable | None:
        committable = self._files.pre_commit()
        if committable is None:
            return None
        schema = self._table.schema_for(self._names)
        found = [
            msgspec.structs.replace(
                facts.FileFacts.of(self._rows[part.number].footer, schema, self._table.metrics),
                partition=self._values.get(part.folder, []),
            )
            for part in parts_of(committable)
        ]
        more = {
            "table": self._table.uuid,
            "location": self._table.location,
            "spec": self._table.spec_json,
            "columns": schema.model_dump_json(),
            "facts": facts.written(found),
        }
        return msgspec.structs.replace(committable, handle={**committable.handle, **more})

    def abort(self) -> None:
        self._files.abort()

    def _writer(self, file: IO[bytes], schema: pa.Schema) -> ParquetRows:
        """Called once for each file, in the order of their numbers. The format demands short decimals."""
        self._rows.append(ParquetRows(file, schema, short_decimals=True))
        return self._rows[-1]
