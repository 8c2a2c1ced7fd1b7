"""Event-time windows into files; the second argument says whether Spark runs no-data epochs by itself."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate import FileSink, FileSource, Job


def main(folder: Path, no_data_epochs: str, until: str) -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.noDataMicroBatches.enabled", no_data_epochs)
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
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
