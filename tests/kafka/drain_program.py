"""Event-time windows into Kafka and SQLite, in the same epochs, until somebody ends the job."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import functions as F

from tests.support.session import small_session
from tidegate import FileSource, Job, KafkaSink, SQLiteSink


def main(folder: Path, servers: str, topic: str) -> None:
    spark = small_session()
    job = Job("exact", spark=spark, checkpointing_dir=str(folder / "checkpoints"), checkpointing_interval=0)
    source = FileSource(str(folder / "in"), format="json", schema="at timestamp", maxFilesPerTrigger=1)
    events = job.source("events", source).withWatermark("at", "5 seconds")
    counts = events.groupBy(F.window("at", "10 seconds")).count()
    rows = counts.select(F.date_format("window.start", "HH:mm:ss").alias("start"), "count")
    kafka = KafkaSink("topic", servers, topic=topic, key="start", transaction_timeout=60)
    job.query("windows", rows, sinks=[kafka, SQLiteSink("table", folder / "out.db", table="rows")])
    job.run()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
