"""Two queries whose checkpoints are on the storage of the second argument: a count of words, and their lines.

The input and the files of the counts are beside the checkpoints; the lines are a table on this machine.

The third argument, if any, is `lease.timeout`; the fourth is `fresh=ID`, `savepoint=PATH`, or `rewind=PATH`.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from pyspark.sql import functions as F

from tests.support.session import small_session
from tidegate import FileSink, FileSource, Job, Restore, SQLiteSink


def main(folder: Path, checkpoints: str, lease_timeout: str = "8s", wish: str = "") -> None:
    # Of S3 the session of tidegate has the jars: a program that makes its own brings them.
    spark = None if checkpoints.startswith("s3:") else small_session()
    job = Job(
        "words", spark=spark, checkpointing_dir=checkpoints, checkpointing_interval=0, lease_timeout=lease_timeout
    )
    lines = job.source("lines", FileSource(beside(checkpoints, "in"), format="text", max_files=1, settle=0))
    counts = lines.groupBy("value").count()
    job.query("counts", counts, sinks=[FileSink("files", beside(checkpoints, "out"), format="json")], mode="update")
    lucky = F.udf(random.random, "double").asNondeterministic()
    job.query("drawn", lines.withColumn("lucky", lucky()), sinks=[SQLiteSink("table", folder / "out.db", table="t")])
    kind, _, value = wish.partition("=")
    savepoint = Restore(value, rewind="once" if kind == "rewind" else "") if kind in ("savepoint", "rewind") else None
    job.run(until="caught-up", fresh=value if kind == "fresh" else None, savepoint=savepoint)


def beside(checkpoints: str, name: str) -> str:
    """A folder on the storage of the checkpoints."""
    return f"{checkpoints}-{name}"


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
