"""`python -m tidegate.spark.warm_up FILE`: runs a short job. Its JVM writes the classes that it has used into FILE.

The JVM writes them when it ends. The job uses the parts that most jobs use: files, state in RocksDB, two sinks, an
epoch that a second start finds. Other classes are loaded as usual.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidegate.disk.durable import sync_file
from tidegate.machine.class_archive import SUBMIT_OPTIONS, options_to_make
from tidegate.sinks.files.sink import FileSink
from tidegate.sinks.sqlite.sink import SQLiteSink
from tidegate.spark.job import Job
from tidegate.spark.operator_uids import uid
from tidegate.spark.sources.files import FileSource


def main(archive: Path) -> None:
    """Create the archive, unless it exists."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix="warm-up-") as folder:
        draft = Path(folder) / archive.name
        os.environ[SUBMIT_OPTIONS] = f"{os.environ.get(SUBMIT_OPTIONS, '')} {options_to_make(draft)}"
        for _ in range(2):
            _live(Path(folder))
        _end_the_jvm()
        with draft.open("rb+") as written:
            sync_file(written.fileno())
        draft.replace(archive)


_ROWS = "".join(f'{{"word": "w{number % 7}", "number": {number}}}\n' for number in range(100))
_END_SECONDS = 120.0


def _live(folder: Path) -> None:
    rows = folder / "in" / f"{len(list(folder.glob('in/*')))}.json"
    rows.parent.mkdir(exist_ok=True)
    rows.write_text(_ROWS)
    job = Job("warm-up", checkpointing_dir=str(folder / "checkpoints"), checkpointing_interval=0)
    source = FileSource(str(rows.parent), format="json", schema="word string, number long", settle=0)
    counts = job.source("lines", source).groupBy("word").agg(F.count("*").alias("count"), F.max("number").alias("last"))
    sinks = [SQLiteSink("table", folder / "out.db", table="counts", key="word"), FileSink("files", folder / "out")]
    job.query("counts", uid("per-word", counts), mode="update", sinks=sinks)
    job.run(until="caught-up")


def _end_the_jvm() -> None:
    """End the JVM and wait: only then is the archive complete."""
    gateway: Any = SparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    jvm = gateway.proc
    session = SparkSession.getActiveSession()
    if session is not None:
        session.stop()
    gateway.shutdown()
    jvm.stdin.close()
    jvm.wait(_END_SECONDS)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
