"""Event-time windows into files; the second argument says whether Spark runs no-data epochs by itself."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.support.session import small_session
from tidegate import FileSink, FileSource, Job


def main(folder: Path, no_data_epochs: str, until: str) -> None:
    spark = small_session(spark_sql_streaming_noDataMicroBatches_enabled=no_data_epochs)
    windows_job(folder, spark).run(until="caught-up" if until == "caught-up" else None)


def windows_job(folder: Path, spark: SparkSession) -> Job:
    job = Job("windows", spark=spark, checkpointing_dir=str(folder / "checkpoints"), checkpointing_interval=0)
    source = FileSource(str(folder / "in"), format="json", schema="at timestamp", maxFilesPerTrigger=1)
    events = job.source("events", source).withWatermark("at", "5 seconds")
    counts = events.groupBy(F.window("at", "10 seconds")).count()
    rows = counts.select(F.date_format("window.start", "HH:mm:ss").alias("start"), "count")
    job.query("windows", rows, sinks=[FileSink("files", str(folder / "out"), format="json")])
    return job


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
