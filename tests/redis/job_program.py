"""Running totals of numbered rows, as hashes and as strings of Redis, in the same epochs as a table of SQLite.

The totals are computed from state. A total whose newest number is divisible by 7 says that its key is gone.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from tests.support.session import small_session
from tidegate import FileSource, Job, RedisSink, Restore, SQLiteSink

KEYS = 60


def main(folder: Path, url: str, prefix: str, buckets: str, back_to: str = "") -> None:
    """`back_to`: the number of a retained checkpoint that is restored first."""
    spark = small_session(spark_sql_shuffle_partitions="3")
    checkpoints = folder / "checkpoints"
    job = Job(
        "totals", spark=spark, checkpointing_dir=str(checkpoints), checkpointing_interval=0, checkpointing_retained=40
    )
    source = FileSource(str(folder / "in"), format="json", schema="number long", maxFilesPerTrigger=1)
    rows = job.source("numbers", source).groupBy((F.col("number") % KEYS).alias("key"))
    totals = rows.agg(F.max("number").alias("newest"), F.sum("number").alias("total"))
    marked = ["key", "newest", "total", (F.col("newest") % 7 == 0).alias("is gone")]
    to_server: dict[str, Any] = {
        "url": url,
        "key": "key",
        "deleted": "is gone",
        "select": marked,
        "buckets": int(buckets) or None,
        "options": {"password": "env:THE_PASSWORD"},
    }
    job.query(
        "totals",
        totals,
        mode="update",
        sinks=[
            RedisSink("hashes", prefix=f"{prefix}-h", **to_server),
            RedisSink("strings", prefix=f"{prefix}-s", format="json", **to_server),
            SQLiteSink("table", folder / "out.db", table="totals", key="key"),
        ],
    )
    retained = checkpoints / "totals" / "checkpoints" / back_to
    job.run(until="caught-up", savepoint=Restore(str(retained), rewind="back") if back_to else None)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
