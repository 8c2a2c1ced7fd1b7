"""Rows that come once, kept in an ingest log on the storage of the second argument, into files beside it: each number,
and the count of the numbers by their last digit.

    python ingest_program.py FOLDER CHECKPOINTS queue|PORT LEASE_TIMEOUT [caught-up [SAVEPOINT]]

A queue is read in this process (`Ticks`); a port is that of a server of lines, which begin with a number.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import functions as F

from tests.integration.durable_program import Ticks
from tests.storages.remote_program import beside
from tidegate import FileSink, Job, SocketSource


def main(folder: str, checkpoints: str, source: str, lease_timeout: str, until: str = "", savepoint: str = "") -> None:
    job = Job(
        "rows",
        checkpointing_dir=checkpoints,
        checkpointing_interval="200ms",
        checkpointing_retained=1_000_000,  # so that nothing is trimmed, where the variable does not say otherwise
        lease_timeout=lease_timeout,
        parallelism=2,
    )
    if source == "queue":
        numbers = job.source("rows", Ticks(Path(folder)), durable=True)
    else:
        lines = job.source("rows", SocketSource("127.0.0.1", int(source), durable=True))
        numbers = lines.select(F.split("value", " ")[0].cast("long").alias("n"))
    job.query("each", numbers, sinks=[FileSink("numbers", beside(checkpoints, "each"), format="json")])
    digits = numbers.groupBy((F.col("n") % 10).alias("digit")).count()
    job.query("digits", digits, mode="update", sinks=[FileSink("counts", beside(checkpoints, "counts"), format="json")])
    job.run(until="caught-up" if until == "caught-up" else None, savepoint=savepoint or None)


if __name__ == "__main__":
    main(*sys.argv[1:])
