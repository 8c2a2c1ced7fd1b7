"""Lines of local files into a local table, for ever. The checkpoints are on the storage of the second argument."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.session import small_session
from tidegate import FileSource, Job, SQLiteSink


def main(folder: Path, checkpoints: str) -> None:
    spark = None if checkpoints.startswith("s3:") else small_session()
    job = Job("words", spark=spark, checkpointing_dir=checkpoints, checkpointing_interval="200ms")
    lines = job.source("lines", FileSource(str(folder / "in"), format="text", max_files=1, settle=0))
    job.query("copies", lines, sinks=[SQLiteSink("table", folder / "out.db", table="words")])
    job.run()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
