"""`python -m tidegate.spark.warm_up FILE NICENESS`: runs a short job. Its JVM writes the classes that it has used into
FILE.

The JVM writes them when it ends. The job uses the parts that most jobs use: files, state in RocksDB, two sinks, an
epoch that a second start finds. Other classes are loaded as usual.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from tidegate.disk.durable import sync_file
from tidegate.machine.class_archive import SUBMIT_OPTIONS, options_to_make
from tidegate.sinks.files.sink import FileSink
from tidegate.sinks.sqlite.sink import SQLiteSink
from tidegate.spark.job import Job
from tidegate.spark.operator_uids import uid
from tidegate.spark.short_job import ROWS, SCHEMA, counts_of
from tidegate.spark.sources.files import FileSource


def main(archive: Path, niceness: int) -> None:
    """Create the archive, unless it exists. Of two processes that create it, the second one waits for the first.

    Removes what an earlier process left when it was killed, and other archives but the newest two.
    """
    os.nice(niceness)
    archive.parent.mkdir(parents=True, exist_ok=True)
    with (archive.parent / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            for left in archive.parent.glob(f"{_DRAFTS}*"):
                shutil.rmtree(left)
            _make(archive)
        _keep_the_newest(archive)


def _make(archive: Path) -> None:
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix=_DRAFTS) as folder:
        draft = Path(folder) / archive.name
        os.environ[SUBMIT_OPTIONS] = f"{os.environ.get(SUBMIT_OPTIONS, '')} {options_to_make(draft)}"
        for _ in range(2):
            _live(Path(folder))
        _end_the_jvm()
        with draft.open("rb+") as written:
            sync_file(written.fileno())
        draft.replace(archive)


def _keep_the_newest(archive: Path) -> None:
    """Each version of Java and of Spark has an archive of its own. A JVM keeps the one that it has mapped."""
    others = sorted(
        (each for each in archive.parent.glob(f"*{archive.suffix}") if each != archive),
        key=lambda each: each.stat().st_mtime,
    )
    for each in others[: -(_ARCHIVES - 1)]:
        each.unlink(missing_ok=True)


LOCK = "warm-up.lock"
_DRAFTS = "warm-up-"
_ARCHIVES = 3
_END_SECONDS = 120.0


def _live(folder: Path) -> None:
    rows = folder / "in" / f"{len(list(folder.glob('in/*')))}.json"
    rows.parent.mkdir(exist_ok=True)
    rows.write_text(ROWS)
    job = Job("warm-up", checkpointing_dir=str(folder / "checkpoints"), checkpointing_interval=0)
    source = FileSource(str(rows.parent), format="json", schema=SCHEMA, settle=0)
    counts = counts_of(job.source("lines", source))
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
    main(Path(sys.argv[1]), int(sys.argv[2]))
