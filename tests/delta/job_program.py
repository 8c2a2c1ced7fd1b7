"""Numbered rows with a random mark into Delta tables and tables of SQLite, in the same epochs: appended, and by key.

The mark is drawn by Python each time a row is computed: rows of two evaluations of one epoch never agree.
"""

from __future__ import annotations

import sys
import uuid
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import functions as F

from tests.support.session import small_session
from tidegate import DeltaSink, FileSource, Job, SQLiteSink


def drawn(numbers: pd.Series) -> pd.Series:
    return pd.Series([uuid.uuid4().hex for _ in numbers])


def main(folder: Path, tables: str) -> None:
    spark = small_session(spark_sql_shuffle_partitions="3")
    job = Job("copy", spark=spark, checkpointing_dir=str(folder / "checkpoints"), checkpointing_interval=0)
    draw: Any = F.pandas_udf
    mark = draw(drawn, "string")(F.col("number"))
    source = FileSource(str(folder / "in"), format="json", schema="number long", maxFilesPerTrigger=1)
    rows = job.source("numbers", source).repartition(3, "number").withColumn("mark", mark)
    parted = ["number", "mark", (F.col("number") % 3).alias("part")]
    newest = [(F.col("number") % 50).alias("word"), "number", "mark", (F.col("number") % 4).alias("part")]
    job.query(
        "copy",
        rows,
        sinks=[
            DeltaSink("log", f"{tables}/log"),
            DeltaSink("parted", f"{tables}/parted", partition_by="part", select=parted),
            SQLiteSink("table", folder / "out.db", table="rows"),
            DeltaSink("newest", f"{tables}/newest", key="word", partition_by="part", compact_at=3, select=newest),
            SQLiteSink("newest-table", folder / "out.db", table="newest", key="word", select=newest),
        ],
    )
    job.run(until="caught-up")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
