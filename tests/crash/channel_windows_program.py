"""Windows of windows, joined by a channel: counts by ten seconds, which a reader adds by the minute.

Argument: a folder. It has the input `in`, and gets the checkpoints, the counts `tens` and the sums `minutes`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.support.session import small_session
from tidegate import FileSink, FileSource, Job


def drained_job(folder: Path, spark: SparkSession, events: Path) -> Job:
    job = Job("windows", spark=spark, checkpointing_dir=str(folder / "checkpoints"), checkpointing_interval=0)
    source = FileSource(str(events), format="json", schema="at timestamp", maxFilesPerTrigger=1)
    counted = job.source("events", source).withWatermark("at", "5 seconds").groupBy(F.window("at", "10 seconds"))
    counts = counted.count().select(F.col("window.start").alias("start"), F.col("count"))
    channel = job.channel("counts")
    job.query("tens", counts, sinks=[channel, FileSink("tens-files", str(folder / "tens"), format="json")])
    read = job.source("counts-in", channel).withWatermark("start", "5 seconds")
    sums = read.groupBy(F.window("start", "1 minute")).agg(F.sum("count").alias("count"))
    added = sums.select(F.col("window.start").alias("start"), F.col("count"))
    job.query("minutes", added, sinks=[FileSink("minutes-files", str(folder / "minutes"), format="json")])
    return job


def tens(folder: Path) -> list[tuple[str, int]]:
    """The visible counts, by the time of day at which their window begins."""
    return _rows(folder / "tens")


def minutes(folder: Path) -> list[tuple[str, int]]:
    """The visible sums."""
    return _rows(folder / "minutes")


def _rows(folder: Path) -> list[tuple[str, int]]:
    lines = [line for file in folder.glob("*.json") for line in file.read_text().splitlines()]
    return sorted((row["start"][11:19], row["count"]) for row in map(json.loads, lines))


if __name__ == "__main__":
    here = Path(sys.argv[1])
    drained_job(here, small_session(), here / "in").run()
