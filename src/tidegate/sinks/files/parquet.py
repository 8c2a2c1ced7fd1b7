"""Rows as a Parquet file that Spark reads: timestamps in microseconds, zstd, row groups of a useful size."""

from __future__ import annotations

from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

_ROW_GROUP_ROWS = 128 * 1024
_ROW_GROUP_BYTES = 64 * 1024 * 1024


class ParquetRows:
    """Gathers batches into row groups. Without this, each of Spark's batches of 10,000 rows becomes one."""

    def __init__(self, file: IO[bytes], schema: pa.Schema, *, short_decimals: bool = False) -> None:
        """`short_decimals`: decimals of up to 18 digits are written as integers, which not every reader knows."""
        self._writer = pq.ParquetWriter(
            file, schema, compression="zstd", coerce_timestamps="us", store_decimal_as_integer=short_decimals
        )
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
            self._writer.write_table(pa.Table.from_batches(self._gathered))
            self._gathered, self._rows, self.held_bytes = [], 0, 0

    def close(self) -> None:
        self.flush()
        self._writer.close()

    def abandon(self) -> None:
        # After a failed write the writer cannot be closed. An open writer tries to close when it is garbage-collected.
        self._writer.is_open = False
