"""Reads data files, published and staged ones, batch by batch: on a disk and on S3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.fs import DeltaStorageHandler

from tidegate.core.errors import Code, TidegateError
from tidegate.sinks.arrow import columns_of, fields_of
from tidegate.sinks.delta.place import TablePlace

BATCH_ROWS = 32 * 1024


class FileRows:
    """Rows of Parquet files below the folder of a table. It holds secrets of the storage: for one process."""

    def __init__(self, place: TablePlace) -> None:
        self._where = place.folder
        self._handler = DeltaStorageHandler(str(place.folder), place.options())

    def count(self, path: str) -> int:
        """The number of rows of a file."""
        with self._opened(path) as file:
            return file.metadata.num_rows

    def of(self, path: str, schema: pa.Schema, known: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        """The rows of a file as a table of this schema has them, in their order.

        `known`: columns that stand in the log and not in the file, as Arrow's scalars. A column that the file lacks is
        null. Holds one group of rows of the file, packed, and one batch.
        """
        with self._opened(path) as file:
            try:
                held: list[str] = file.schema_arrow.names
                wanted = [name for name in schema.names if name in held and name not in known]
                for batch in file.iter_batches(BATCH_ROWS, columns=wanted or held[:1], use_threads=False):
                    yield _conformed(batch, schema, known)
            except pa.ArrowException as error:
                raise _unreadable(f"{self._where}/{path}", error) from None

    def _opened(self, path: str) -> Any:
        try:
            source = self._handler.open_input_file(path)
            return cast("Any", pq).ParquetFile(source, coerce_int96_timestamp_unit="us", pre_buffer=False)
        except pa.ArrowException as error:
            raise _unreadable(f"{self._where}/{path}", error) from None


def _conformed(batch: pa.RecordBatch, schema: pa.Schema, known: Mapping[str, Any]) -> pa.RecordBatch:
    columns: dict[str, Any] = dict(zip(batch.schema.names, columns_of(batch), strict=True))
    columns |= {name: cast("Any", pa).repeat(value, batch.num_rows) for name, value in known.items()}
    made = [_of_type(columns.get(field.name), field.type, batch.num_rows) for field in fields_of(schema)]
    return cast("Any", pa.RecordBatch).from_arrays(made, schema=schema)


def _of_type(column: Any, kind: pa.DataType, rows: int) -> Any:
    if column is None:
        return cast("Any", pa).nulls(rows, kind)
    return column if column.type == kind else column.cast(kind)


def _unreadable(where: str, error: Exception) -> TidegateError:
    return TidegateError(
        Code.SINK_UNUSABLE,
        expected="a data file with the columns of the table",
        found=str(error),
        where=where,
        next_step="restore the file, or remove it from the table (FSCK REPAIR TABLE); then start again",
    )
