"""A job that writes words into a table, where "poison" cannot stand, and its dead letters into files."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.session import small_session
from tidegate import FileSink, FileSource, Job, SQLiteSink


def main(folder: Path) -> None:
    spark = small_session()
    job = Job("words", spark=spark, checkpointing_dir=str(folder / "checkpoints"), checkpointing_interval=0)
    words = job.source("words", FileSource(str(folder / "in"), format="text", maxFilesPerTrigger=1))
    table = SQLiteSink("table", folder / "out.db", table="words")
    dead = FileSink("dead", folder / "dead", format="json")
    job.query("query", words, sinks=[table], dead_letters=dead)
    job.run(until="caught-up")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
