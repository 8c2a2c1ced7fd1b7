"""Numbered rows with a random mark into Kafka and SQLite, in the same epochs, more partitions than cores.

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
from tidegate import FileSource, Job, KafkaSink, SQLiteSink


def drawn(numbers: pd.Series) -> pd.Series:
    return pd.Series([uuid.uuid4().hex for _ in numbers])


def main(folder: Path, servers: str, topic: str, timeout_seconds: float) -> None:
    spark = small_session(spark_sql_shuffle_partitions="4")
    job = Job("exact", spark=spark, checkpointing_dir=str(folder / "checkpoints"), checkpointing_interval=0)
    draw: Any = F.pandas_udf
    mark = draw(drawn, "string")(F.col("number"))
    source = FileSource(str(folder / "in"), format="json", schema="number long", maxFilesPerTrigger=1)
    rows = job.source("numbers", source).repartition(4, "number").withColumn("mark", mark)
    job.query(
        "copy",
        rows,
        sinks=[
            KafkaSink("topic", servers, topic=topic, key="number", transaction_timeout=timeout_seconds),
            SQLiteSink("table", folder / "out.db", table="rows"),
        ],
    )
    handle = job.start(until="caught-up")
    handle.wait()
    print(json.dumps({"redone": handle.status().queries[0].redone}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4]))
