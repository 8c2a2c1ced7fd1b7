"""A word count whose listener keeps figures of the job in a file, for a health check or an agent that collects metrics.

    mkdir -p text && echo "to be or not to be" > text/1.txt
    python examples/listener.py        # ends when all files are read
    cat metrics.json                   # {"counts": {"epochs": 1, "rows": 4, "failed": 0, "dead_letters": 0}}

Nothing that a listener does can harm the job: what it raises is logged, and a slow one misses events.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate import FileSource, Job, JobEvent, SQLiteSink, happenings


class Metrics:
    """Counts by query since the start of the program. A reader of the file sees the figures of one moment."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._figures: defaultdict[str, Counter[str]] = defaultdict(
            lambda: Counter(epochs=0, rows=0, failed=0, dead_letters=0)
        )

    def __call__(self, event: JobEvent) -> None:
        figures = self._figures[event.query]
        match event.happening:
            case happenings.EpochDone(rows=rows):
                figures.update(epochs=1, rows=rows)
            case happenings.EpochFailed():
                figures.update(failed=1)
            case happenings.DeadLettersWritten(rows=rows):
                figures.update(dead_letters=rows)
            case _:
                return
        new = self._file.with_name(f".{self._file.name}.new")
        new.write_text(json.dumps(self._figures))
        os.replace(new, self._file)


def declare(folder: Path, spark: SparkSession | None = None) -> Job:
    """The job: how often each word has come, from the files in `text` into the table `counts`."""
    metrics = Metrics(folder / "metrics.json")
    job = Job("words", spark=spark, checkpointing_dir=str(folder / ".tidegate"), listeners=[metrics])
    lines = job.source("lines", FileSource(str(folder / "text"), format="text"))
    words = lines.select(F.explode(F.split("value", " ")).alias("word"))
    table = SQLiteSink("table", folder / "counts.db", table="counts", key=["word"])
    job.query("counts", words.groupBy("word").count(), mode="update", sinks=[table])
    return job


if __name__ == "__main__":
    declare(Path()).run(until="caught-up")
