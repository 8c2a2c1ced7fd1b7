"""The baselines: the `foreachBatch` functions that a good engineer writes today for the same outputs.

They publish inside the epoch and remember nothing, so a crash repeats or mixes rows; that is what they are measured
for. SQLite in its default journal mode syncs a transaction before COMMIT returns. A Parquet file is synced, and so is
its folder: "written" then means the same on both sides.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

Write: TypeAlias = Callable[[DataFrame, int], None]


def into_sqlite(path: Path, table: str, columns: Sequence[str], key: str | None = None) -> Write:
    """Collect the epoch on the driver and write it by one `executemany` in one synced transaction."""
    names = [column.split()[0] for column in columns]
    statement = f"INSERT INTO {table} VALUES ({', '.join('?' * len(names))})"
    if key is not None:
        others = ", ".join(f"{name} = excluded.{name}" for name in names if name != key)
        statement += f" ON CONFLICT ({key}) DO UPDATE SET {others}"
    with closing(sqlite3.connect(path)) as database:
        constraint = [] if key is None else [f"PRIMARY KEY ({key})"]
        database.execute(f"CREATE TABLE {table} ({', '.join([*columns, *constraint])})")

    def write(rows: DataFrame, _: int) -> None:
        collected = rows.toArrow()
        values = zip(*(_bound(column) for column in collected.columns), strict=True)
        with closing(sqlite3.connect(path)) as database, database:
            database.executemany(statement, values)

    return write


def into_parquet(folder: Path) -> Write:
    """Collect the epoch on the driver and write it as one synced file: right for a few rows."""
    folder.mkdir(parents=True)

    def write(rows: DataFrame, epoch: int) -> None:
        hidden, final = folder / f".{epoch:09}.parquet", folder / f"{epoch:09}.parquet"
        pq.write_table(rows.toArrow(), hidden, compression="zstd")
        _sync(hidden)
        hidden.rename(final)
        _sync(folder)

    return write


def into_parquet_by_spark(folder: Path) -> Write:
    """`df.write.parquet`, by Spark's own tasks: right for many rows."""

    def write(rows: DataFrame, _: int) -> None:
        rows.write.mode("append").option("compression", "zstd").parquet(str(folder))

    return write


def _bound(column: pa.ChunkedArray) -> Sequence[object]:
    """The values as sqlite3 binds them. A timestamp becomes text in Arrow, as fast as it can be done."""
    if pa.types.is_timestamp(column.type):
        column = pc.cast(pc.cast(column, pa.timestamp("us")), pa.string())
    return column.to_pylist()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
