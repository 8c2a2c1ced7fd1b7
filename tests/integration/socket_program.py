"""Word count from a socket: every line into one table, the count of each word into another.

    python socket_program.py FOLDER PORT MODE durable|plain [caught-up]

A plain socket has one query only: Spark opens a connection for each.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import functions as F

from tidegate import Job, SocketSource, SQLiteSink


def main(folder: str, port: str, mode: str, kind: str, until: str = "") -> None:
    place = Path(folder)
    job = Job(
        "lines",
        checkpointing_dir=str(place / "checkpoints"),
        checkpointing_interval="100ms",
        checkpointing_mode=mode,
        checkpointing_retained=1_000_000,  # so that nothing is trimmed, and the test can read all that ever arrived
    )
    durable = kind == "durable"
    lines = job.source("socket", SocketSource("127.0.0.1", int(port), durable=durable))
    job.query("each", lines, sinks=[SQLiteSink("each-table", str(place / "each.db"), table="lines")])
    if durable:
        counts = lines.groupBy(F.split("value", " ")[1].alias("word")).count()
        table = SQLiteSink("counts-table", str(place / "counts.db"), table="counts", key=["word"])
        job.query("counts", counts, mode="update", sinks=[table])
    job.run(until="caught-up" if until == "caught-up" else None)


if __name__ == "__main__":
    main(*sys.argv[1:])
