"""Numbered rows with a random mark into two Iceberg tables and one of SQLite, in the same epochs.

The mark is drawn by Python each time a row is computed: rows of two evaluations of one epoch never agree.
"""

from __future__ import annotations

import json
import sys
import uuid
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import functions as F

from tests.support.session import small_session
from tidegate import FileSource, IcebergSink, Job, SQLiteSink


def drawn(numbers: pd.Series) -> pd.Series:
    return pd.Series([uuid.uuid4().hex for _ in numbers])


def main(folder: Path, catalog: dict[str, str]) -> None:
    spark = small_session(spark_sql_shuffle_partitions="3")
    job = Job("copy", spark=spark, checkpointing_dir=str(folder / "checkpoints"), checkpointing_interval=0)
    draw: Any = F.pandas_udf
    mark = draw(drawn, "string")(F.col("number"))
    source = FileSource(str(folder / "in"), format="json", schema="number long", maxFilesPerTrigger=1)
    rows = job.source("numbers", source).repartition(3, "number").withColumn("mark", mark)
    parted = ["number", "mark", (F.col("number") % 3).alias("part")]
    job.query(
        "copy",
        rows,
        sinks=[
            IcebergSink("log", "lake.log", catalog="tests", catalog_properties=catalog),
            IcebergSink(
                "parted",
                "lake.parted",
                catalog="tests",
                catalog_properties=catalog,
                partition_by=["part", "bucket(2, mark)"],
                select=parted,
            ),
            SQLiteSink("table", folder / "out.db", table="rows"),
        ],
    )
    job.run(until="caught-up")


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
