"""How fast two million rows go through: ten epochs of 200,000 rows of six columns, from Parquet files.

The time is that from `offsets/0` until the rows of the last epoch can be read; starting a query is not in it. The
figure is the baseline's time divided by tidegate's: 1 is as fast, 0.9 is the goal.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bench import plain
from bench.figures import Better, Figure
from bench.seen import Seen, told
from bench.session import shared_session
from tidegate import FileSink, FileSource, Job, SQLiteSink
from tidegate.sinks.base import TwoPhaseSink

EPOCHS = 10
ROWS_PER_EPOCH = 200_000
SCHEMA = "a INT, b DOUBLE, c STRING, d TIMESTAMP, e BOOLEAN, f LONG"
COLUMNS = ("a INTEGER", "b REAL", "c TEXT", "d TEXT", "e INTEGER", "f INTEGER")
_QUICK_SHARE = 10
_GOAL = 0.9


@dataclass(frozen=True, slots=True)
class Case:
    """A target: the sink that is measured, the baseline that writes the same, and how its rows are counted."""

    what: str
    sink: Callable[[Path], TwoPhaseSink]
    baseline: Callable[[Path], plain.Write]
    count: Callable[[Path], int]


def _count_table(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "out.db")) as database:
        return database.execute("SELECT count(*) FROM t").fetchone()[0]


def _count_files(folder: Path) -> int:
    return sum(pq.read_metadata(file).num_rows for file in (folder / "out").glob("*.parquet"))


CASES: Mapping[str, Case] = {
    "throughput-sqlite": Case(
        what="into SQLite; baseline: collected as Arrow, one `executemany` and one synced transaction an epoch",
        sink=lambda folder: SQLiteSink("sink", folder / "out.db", table="t"),
        baseline=lambda folder: plain.into_sqlite(folder / "out.db", "t", COLUMNS),
        count=_count_table,
    ),
    "throughput-parquet": Case(
        what="into Parquet; baseline: `df.write.parquet`, which syncs nothing",
        sink=lambda folder: FileSink("sink", folder / "out", format="parquet"),
        baseline=lambda folder: plain.into_parquet_by_spark(folder / "out"),
        count=_count_files,
    ),
}


def measure(name: str, rounds: int, *, quick: bool) -> list[Figure]:
    """The figure of one case. Every round measures the baseline, then tidegate; a round before them warms the JVM."""
    case, rows = CASES[name], ROWS_PER_EPOCH // (_QUICK_SHARE if quick else 1)
    samples: dict[str, list[float]] = {}
    with shared_session() as spark, tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        source = Path(folder) / "in"
        write_input(source, rows)
        for number in range(rounds + 1):
            for side, run in (("baseline", _run_baseline), ("tidegate", _run_tidegate)):
                place = Path(folder) / f"{side}-{number}"
                place.mkdir()
                seen = run(case, spark, source, place)
                if (found := case.count(place)) != EPOCHS * rows:
                    raise ValueError(f"{side} wrote {found} rows instead of {EPOCHS * rows}")
                if number:
                    samples.setdefault(f"{side} s", []).append(round(seen.seconds(EPOCHS - 1), 3))
    return [
        Figure(
            name=name,
            what=f"speed of {EPOCHS * rows:,} rows against the baseline's, {case.what}",
            value=round(median(samples["baseline s"]) / median(samples["tidegate s"]), 2),
            unit="x",
            better=Better.HIGHER,
            goal=_GOAL,
            samples=samples,
        )
    ]


def write_input(folder: Path, rows: int) -> None:
    """One file an epoch, in the order in which the file source takes them: by their times."""
    folder.mkdir()
    random = np.random.default_rng(seed=1)
    begin = int(datetime(2026, 1, 1, tzinfo=timezone.utc).timestamp())
    for epoch in range(EPOCHS):
        numbers = np.arange(epoch * rows, (epoch + 1) * rows)
        table = pa.table(
            {
                "a": pa.array(random.integers(0, 1_000_000, rows), pa.int32()),
                "b": pa.array(random.random(rows)),
                "c": pa.array([f"customer-{number % 50_000:06}" for number in numbers.tolist()]),
                "d": pa.array(begin * 1_000_000 + numbers * 1_000, pa.timestamp("us", tz="UTC")),
                "e": pa.array(random.integers(0, 2, rows).astype(bool)),
                "f": pa.array(numbers),
            }
        )
        file = folder / f"{epoch:03}.parquet"
        pq.write_table(table, file, row_group_size=max(1, rows // 4))
        os.utime(file, (begin + epoch, begin + epoch))


def _run_baseline(case: Case, spark: SparkSession, source: Path, place: Path) -> Seen:
    seen = Seen(place / "checkpoint" / "offsets", EPOCHS)
    reader = spark.readStream.format("parquet").schema(SCHEMA).option("maxFilesPerTrigger", 1)
    query = (
        reader.load(str(source))
        .writeStream.foreachBatch(seen.noting(case.baseline(place)))
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return seen


def _run_tidegate(case: Case, spark: SparkSession, source: Path, place: Path) -> Seen:
    job = Job("bench", spark=spark, checkpointing_interval=0, checkpointing_dir=str(place / "checkpoints"))
    rows = job.source("source", FileSource(str(source), format="parquet", schema=SCHEMA, maxFilesPerTrigger=1))
    job.query("query", rows, sinks=[case.sink(place)])
    seen = Seen.of_job(place / "checkpoints", EPOCHS)
    with told(seen):
        job.run(until="caught-up")
    return seen
