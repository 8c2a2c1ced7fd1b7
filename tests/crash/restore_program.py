"""Running counts into a table and closed windows into files: `save` runs through one epoch and takes a savepoint,
`restore` goes on from it until it has caught up. The third word: in how many partitions state is."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from tests.support.session import small_session
from tidegate import FileSink, FileSource, Job, SQLiteSink


def main(folder: Path, doing: str, partitions: str) -> None:
    spark = small_session()
    settings: dict[str, Any] = {"checkpointing_dir": str(folder / "checkpoints"), "parallelism": partitions}
    job = Job("job", spark=spark, checkpointing_interval=0, **settings)
    source = FileSource(str(folder / "in"), format="json", schema="at timestamp, word string", maxFilesPerTrigger=1)
    events = job.source("events", source)
    table = SQLiteSink("table", folder / "out.db", table="words", key="word")
    job.query("counts", events.groupBy("word").count(), mode="update", sinks=[table])
    windows = events.withWatermark("at", "5 seconds").groupBy(F.window("at", "10 seconds")).count()
    rows = windows.select(F.date_format("window.start", "HH:mm:ss").alias("start"), "count")
    job.query("windows", rows, sinks=[FileSink("files", str(folder / "out"), format="json")])
    if doing == "restore":
        job.run(until="caught-up", savepoint=folder / "saved" / "here")
        return
    handle = job.start()
    while min(handle.finished().values()) < 0:
        time.sleep(0.05)
    path = handle.savepoint(folder / "saved", id="one")
    handle.stop()
    if path is not None:
        path.rename(folder / "saved" / "here")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
