"""Running totals of numbered rows, upserted into a table, in the same epochs as a table of SQLite.

The totals are computed from state. A total whose newest number is divisible by 7 says that its key is gone.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from tests.support.session import small_session
from tidegate import FileSource, Job, Restore, SQLiteSink, UpsertSink

KEYS = 60


def main(folder: Path, url: str, schema: str, back_to: str = "") -> None:
    """`schema`: of PostgreSQL, or nothing. `back_to`: the number of a retained checkpoint that is restored first."""
    spark = small_session(spark_sql_shuffle_partitions="3")
    checkpoints = folder / "checkpoints"
    job = Job(
        "totals", spark=spark, checkpointing_dir=str(checkpoints), checkpointing_interval=0, checkpointing_retained=40
    )
    source = FileSource(str(folder / "in"), format="json", schema="number long", maxFilesPerTrigger=1)
    rows = job.source("numbers", source).groupBy((F.col("number") % KEYS).alias("key"))
    totals = rows.agg(F.max("number").alias("newest"), F.sum("number").alias("total"))
    on_server: dict[str, Any] = {"options": {"password": "env:THE_PASSWORD"}} if "://" in url else {}
    upserts = UpsertSink(
        "upserts",
        url,
        table="totals",
        key="key",
        schema=schema or None,
        deleted="is gone",
        select=["key", "newest", "total", (F.col("newest") % 7 == 0).alias("is gone")],
        **on_server,
    )
    table = SQLiteSink("table", folder / "out.db", table="totals", key="key")
    job.query("totals", totals, mode="update", sinks=[upserts, table])
    retained = checkpoints / "totals" / "checkpoints" / back_to
    job.run(until="caught-up", savepoint=Restore(str(retained), rewind="back") if back_to else None)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
