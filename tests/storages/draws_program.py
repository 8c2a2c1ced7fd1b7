"""Draws a random number for each new word, and keeps it in hashmap state on the storage of the second argument.

The third argument, if any, is `savepoint=PATH` or `rewind=PATH`, the fourth the backend, the fifth the folder of the
rows.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import functions as F

from tests.crash.python_state_program import draw
from tests.support.session import small_session
from tidegate import FileSink, FileSource, Job, Restore


def main(folder: Path, checkpoints: str, wish: str = "", backend: str = "hashmap", out: str = "draws") -> None:
    # Of S3 the session of tidegate has the jars: a program that makes its own brings them.
    spark = None if checkpoints.startswith("s3:") else small_session()
    job = Job(
        "draws",
        spark=spark,
        checkpointing_dir=checkpoints,
        checkpointing_interval=0,
        checkpointing_retained=3,
        state_backend=backend,
        lease_timeout="8s",
    )
    lines = job.source("lines", FileSource(str(folder / "in"), format="text", maxFilesPerTrigger=1))
    words = lines.select(F.explode(F.split("value", " ")).alias("word")).groupBy("word")
    drawn = words.applyInPandasWithState(draw, _SCHEMA, "seen long, draw double", "update", "NoTimeout")
    job.query("draws", drawn, mode="update", sinks=[FileSink("out", str(folder / out), format="parquet")])
    kind, _, path = wish.partition("=")
    restore = Restore(path, rewind="once" if kind == "rewind" else "") if path else None
    job.run(until="caught-up", savepoint=restore)


_SCHEMA = "word string, seen long, draw double"

if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
