"""Numbered rows with a random mark into two tables of PostgreSQL and one of SQLite, in the same epochs.

The mark is drawn by Python each time a row is computed: rows of two evaluations of one epoch never agree. `log` has
every row. `latest` has the newest row of each key, unless that row says that the key is gone. `protocol`: of `log`.
"""

from __future__ import annotations

import sys
import uuid
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import functions as F

from tests.support.session import small_session
from tidegate import FileSource, Job, PostgresSink, Restore, SQLiteSink

KEYS = 60


def drawn(numbers: pd.Series) -> pd.Series:
    return pd.Series([uuid.uuid4().hex for _ in numbers])


def main(folder: Path, conninfo: str, schema: str, protocol: str, back_to: str = "") -> None:
    """`back_to`: a retained checkpoint that is restored first."""
    spark = small_session(spark_sql_shuffle_partitions="3")
    job = Job("copy", spark=spark, checkpointing_dir=str(folder / "checkpoints"), checkpointing_interval=0)
    draw: Any = F.pandas_udf
    mark = draw(drawn, "string")(F.col("number"))
    source = FileSource(str(folder / "in"), format="json", schema="number long", maxFilesPerTrigger=1)
    rows = job.source("numbers", source).repartition(3, "number").withColumn("mark", mark)
    to_server: dict[str, Any] = {"conninfo": conninfo, "schema": schema, "options": {"password": "env:THE_PASSWORD"}}
    latest = [
        (F.col("number") % KEYS).alias("key"),
        "number",
        "mark",
        (F.col("number") % 7 == 0).alias("is gone"),
    ]
    job.query(
        "copy",
        rows,
        sinks=[
            PostgresSink("log", table="log", protocol=protocol, **to_server),
            PostgresSink("latest", table="latest", key="key", deleted="is gone", select=latest, **to_server),
            SQLiteSink("table", folder / "out.db", table="rows"),
        ],
    )
    job.run(until="caught-up", savepoint=Restore(back_to, rewind="back") if back_to else None)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
