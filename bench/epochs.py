"""What tidegate adds to an epoch of ten rows.

Both sides run the same query at interval 0, in one session, round about: 50 epochs of warm-up, then 200. An epoch's
time is that from `offsets/N` to `offsets/N+1` appearing (Spark's log, by the files' own times); *visible* is that from
`offsets/N` until the rows can be read. The figure is the median of tidegate's epochs minus that of the baseline's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench import plain
from bench.figures import Better, Figure
from bench.seen import Seen, told
from bench.session import shared_session
from tidegate import FileSink, Job, SparkSource, SQLiteSink
from tidegate.sinks.base import TwoPhaseSink

ROWS = 10
SOURCE = {"rowsPerBatch": ROWS, "numPartitions": 2, "advanceMillisPerBatch": 1000}


@dataclass(frozen=True, slots=True)
class Case:
    """A query with its output mode, the sink that is measured and the baseline that writes the same."""

    what: str
    goal: float | None
    query: Callable[[DataFrame], DataFrame]
    mode: Literal["append", "update"]
    sink: Callable[[Path], TwoPhaseSink]
    baseline: Callable[[Path], plain.Write]


def _values(rows: DataFrame) -> DataFrame:
    return rows.select(F.col("value").alias("k"), (F.col("value") * 2).alias("v"))


def _counts(rows: DataFrame) -> DataFrame:
    return rows.groupBy((F.col("value") % ROWS).alias("k")).agg(F.count("*").alias("v"))


CASES: Mapping[str, Case] = {
    "epoch-stateless": Case(
        what="10 rows an epoch into SQLite, no state",
        goal=30.0,
        query=_values,
        mode="append",
        sink=lambda folder: SQLiteSink("sink", folder / "out.db", table="t"),
        baseline=lambda folder: plain.into_sqlite(folder / "out.db", "t", ["k INTEGER", "v INTEGER"]),
    ),
    "epoch-stateful": Case(
        what="10 rows an epoch, counted by key (rocksdb), into SQLite",
        goal=30.0,
        query=_counts,
        mode="update",
        sink=lambda folder: SQLiteSink("sink", folder / "out.db", table="t", key="k"),
        baseline=lambda folder: plain.into_sqlite(folder / "out.db", "t", ["k INTEGER", "v INTEGER"], key="k"),
    ),
    "epoch-files": Case(
        what="10 rows an epoch into Parquet files, no state",
        goal=20.0,
        query=_values,
        mode="append",
        sink=lambda folder: FileSink("sink", folder / "out", format="parquet"),
        baseline=lambda folder: plain.into_parquet(folder / "out"),
    ),
}


def measure(name: str, rounds: int, *, quick: bool) -> list[Figure]:
    """The figure of one case. Every round measures the baseline, then tidegate; a round before them warms the JVM."""
    case, (warm_up, epochs) = CASES[name], (20, 60) if quick else (50, 200)
    samples: dict[str, list[float]] = {}
    with shared_session() as spark, tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        for number in range(rounds + 1):
            for side, run in (("baseline", _run_baseline), ("tidegate", _run_tidegate)):
                place = Path(folder) / f"{side}-{number}"
                place.mkdir()
                seen = run(case, spark, place, warm_up + (epochs if number else 0))
                if number:
                    samples.setdefault(f"{side} epoch ms", []).append(seen.period_ms(warm_up))
                    samples.setdefault(f"{side} visible ms", []).append(seen.visible_ms(warm_up))
    value = median(samples["tidegate epoch ms"]) - median(samples["baseline epoch ms"])
    return [
        Figure(
            name=name,
            what=f"time added to an epoch: {case.what}",
            value=round(value, 1),
            unit="ms",
            better=Better.LOWER,
            goal=case.goal,
            samples=samples,
        )
    ]


def job_of(case: Case, spark: SparkSession, place: Path) -> Job:
    """The case as a job of tidegate, with everything it leaves behind in `place`."""
    job = Job("bench", spark=spark, checkpointing_interval=0, checkpointing_dir=str(place / "checkpoints"))
    rows = case.query(job.source("source", SparkSource("rate-micro-batch", schema=None, replayable=None, **SOURCE)))
    job.query("query", rows, mode=case.mode, sinks=[case.sink(place)])
    return job


def _run_baseline(case: Case, spark: SparkSession, place: Path, epochs: int) -> Seen:
    seen = Seen(place / "checkpoint" / "offsets", epochs)
    rows = case.query(spark.readStream.format("rate-micro-batch").options(**SOURCE).load())
    query = (
        rows.writeStream.foreachBatch(seen.noting(case.baseline(place)))
        .outputMode(case.mode)
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(processingTime="0 seconds")
        .start()
    )
    try:
        seen.wait()
    finally:
        query.stop()
    return seen


def _run_tidegate(case: Case, spark: SparkSession, place: Path, epochs: int) -> Seen:
    seen = Seen.of_job(place / "checkpoints", epochs)
    with told(seen):
        handle = job_of(case, spark, place).start()
        try:
            seen.wait()
        finally:
            handle.stop()
    return seen
