"""Rows as a Parquet file that Spark reads: timestamps in microseconds, zstd, row groups of a useful size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

_SAMPLE_ROWS = 8 * 1024
_ROW_GROUP_ROWS = 128 * 1024
_ROW_GROUP_BYTES = 64 * 1024 * 1024


class ParquetRows:
    """Gathers batches into row groups. Without this, each of Spark's batches of 10,000 rows becomes one."""

    def __init__(self, file: IO[bytes], schema: pa.Schema, *, short_decimals: bool = False) -> None:
        """`short_decimals`: decimals of up to 18 digits are written as integers, which not every reader knows."""
        self._file = file
        self._schema = schema
        self._short_decimals = short_decimals
        self._writer: pq.ParquetWriter | None = None
        self._gathered: list[pa.RecordBatch] = []
        self._rows = 0
        self.held_bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._gathered.append(batch)
        self._rows += batch.num_rows
        self.held_bytes += batch.nbytes
        if self._rows >= _ROW_GROUP_ROWS or self.held_bytes >= _ROW_GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        if self._gathered:
            rows = pa.Table.from_batches(self._gathered)
            (self._writer or self._open(rows)).write_table(rows)
            self._gathered, self._rows, self.held_bytes = [], 0, 0

    def close(self) -> None:
        self.flush()
        (self._writer or self._open(self._schema.empty_table())).close()

    def abandon(self) -> None:
        # After a failed write the writer cannot be closed. An open writer tries to close when it is garbage-collected.
        if self._writer is not None:
            self._writer.is_open = False

    @property
    def footer(self) -> pq.FileMetaData:
        """What the file says of itself, once it is closed."""
        return cast("Any", self._writer).writer.metadata

    def _open(self, rows: pa.Table) -> pq.ParquetWriter:
        """`rows`: those of the first row group."""
        self._writer = pq.ParquetWriter(
            self._file,
            self._schema,
            compression="zstd",
            use_dictionary=cast("Any", list(_with_dictionary(rows))),
            coerce_timestamps="us",
            store_decimal_as_integer=self._short_decimals,
        )
        return self._writer


def _with_dictionary(rows: Any) -> Iterator[str]:
    """The Parquet columns that get a dictionary, by `rows`, the table of the first row group.

    A dictionary of values that do not repeat is built, found too large and thrown away in each row group: for numbers
    that takes more time than all the rest of the writer. Nested values are not counted, and have one.
    """
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if pt.is_nested(column.type):
            yield from _leaves(name, column.type)
        elif _repeats(column):
            yield name


def _repeats(column: Any) -> bool:
    """True if three quarters of the values, or more, were there before: then a dictionary takes no more time than the
    values themselves, and less room. (Measured for numbers and texts, 131,072 rows: with half of them a dictionary took
    up to five times as long.)
    """
    return _may_repeat(column) and 4 * _distinct(column) <= len(column)


def _may_repeat(column: Any) -> bool:
    """False for a long column whose samples have too few values twice: to count all values of all columns takes a sixth
    of the writer's time.

    One sample has rows that follow each other, for values that come in runs; the other has rows from everywhere. If
    `count` values are evenly spread over a third as many different ones, two rows of the second sample are equal so
    often that of `sample` rows about `sample * (1 - 1.5 * sample / count)` differ.
    """
    count, sample = len(column), _SAMPLE_ROWS
    if count <= 4 * sample or 4 * _distinct(column.slice(0, sample)) <= sample:
        return True
    stride = count // sample
    rows = np.arange(sample) * stride + np.random.default_rng(0).integers(0, stride, sample)
    return _distinct(column.take(pa.array(rows))) <= sample * (1 - 1.5 * sample / count)


def _distinct(column: Any) -> int:
    return cast("Any", pc).count_distinct(column, mode="all").as_py()


def _leaves(path: str, kind: pa.DataType) -> Iterator[str]:
    """The names of the columns that Parquet makes of a nested column (its rules for lists and maps)."""
    if pt.is_struct(kind):
        for field in cast("Any", kind):
            yield from _leaves(f"{path}.{field.name}", field.type)
    elif pt.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", kind.key_type)
        yield from _leaves(f"{path}.key_value.value", kind.item_type)
    elif pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    else:
        yield path
