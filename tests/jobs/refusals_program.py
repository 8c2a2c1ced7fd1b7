"""Sums numbers by parity, one file an epoch; its arguments make programs of it that a savepoint does not fit."""

from __future__ import annotations

import argparse

from pyspark.sql import functions as F

from tidegate import FileSource, Job, SQLiteSink


def run(given: argparse.Namespace) -> None:
    job = Job(
        "sums",
        checkpointing_dir=".tidegate",
        checkpointing_interval="100ms",
        state_backend="rocksdb",
        parallelism=given.parallelism,
    )
    source = FileSource("numbers", format="json", schema="n long", maxFilesPerTrigger=1)
    rows = job.source("numbers", source).selectExpr("IF(n % 2 = 0, 'even', 'odd') AS parity", "n")
    sink = SQLiteSink("table", "sums.db", table="sums")
    if given.limit:
        job.query(given.uid, rows.limit(100), sinks=[sink])
    else:
        value = F.avg("n").cast("long") if given.means else F.sum("n")
        job.query(given.uid, rows.groupBy("parity").agg(value.alias("n")), mode="update", sinks=[sink])
    job.run()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--uid", default="totals")
    parser.add_argument("--means", action="store_true", help="another aggregate")
    parser.add_argument("--limit", action="store_true", help="no aggregate: the first 100 rows")
    parser.add_argument("--parallelism", type=int, default=2)
    run(parser.parse_args())
