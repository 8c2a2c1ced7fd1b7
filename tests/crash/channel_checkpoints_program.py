"""Two queries joined by a channel count words, and retain two checkpoints.

Arguments: a folder with the input `in`; where the checkpoints are; the name of the job, and of its table; `forever` or
`caught-up`; the checkpoint to go back to, if any.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.session import small_session
from tidegate import FileSource, Job, SQLiteSink


def main(folder: Path, checkpoints: str, name: str, until: str, savepoint: str | None = None) -> None:
    spark = None if checkpoints.startswith("s3:") else small_session()
    job = Job(
        name,
        spark=spark,
        checkpointing_dir=checkpoints,
        checkpointing_interval=0,
        checkpointing_retained=2,
        lease_timeout="8s",
    )
    lines = job.source("lines", FileSource(str(folder / "in"), format="text", maxFilesPerTrigger=1))
    words = job.channel("words")
    job.query("pass", lines, sinks=[words])
    counts = job.source("words-in", words).groupBy("value").count()
    table = SQLiteSink("counts", str(folder / f"{name}.db"), table="counts", key="value")
    job.query("count", counts, mode="update", sinks=[table])
    job.start(until="caught-up" if until == "caught-up" else None, savepoint=savepoint).wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
