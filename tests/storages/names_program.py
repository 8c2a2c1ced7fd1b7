"""A job that copies the numbers of all JSON files of a folder into a table.

Its arguments: the folder of the table, that of the files, and that of the checkpoints.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tidegate import FileSource, Job, SQLiteSink


def main(folder: Path, files: str, checkpoints: str) -> None:
    job = Job("names", checkpointing_dir=checkpoints, checkpointing_interval=0)
    rows = job.source("numbers", FileSource(files, format="json", schema="number long", settle=0))
    job.query("query", rows, sinks=[SQLiteSink("table", folder / "out.db", table="numbers")])
    job.run(until="caught-up")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
