"""Twenty queries in one job: how long an epoch of each takes, and what it costs, against one query alone.

Each query has a source of its own, ten rows an epoch, and writes JSON files; its next epoch begins at once. When all
have run for some seconds, their epochs and the CPU time of all processes are counted for a while. *epoch ms* is that
while divided by the epochs of one query, *CPU ms an epoch* the CPU time divided by the epochs of all.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench.epochs import SOURCE
from bench.figures import Better, Figure
from bench.pace import Pace, measured_pace
from bench.session import own_session
from tidegate import FileSink, Job, SparkSource

QUERIES = 20
_WARM_UP_EPOCHS, _SECONDS = 10, 30.0
_QUICK_WARM_UP_EPOCHS, _QUICK_SECONDS = 3, 8.0


def measure(rounds: int, *, quick: bool) -> list[Figure]:
    """Every round runs one query, then twenty. One query warms the JVM before."""
    runs: dict[int, list[Pace]] = {1: [], QUERIES: []}
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, own_session() as spark:
        _run(spark, Path(folder) / "warm", 1, quick=True)
        for number in range(rounds):
            for queries, paces in runs.items():
                paces.append(_run(spark, Path(folder) / f"{queries}-{number}", queries, quick=quick))
    return figures(runs[1], runs[QUERIES])


def figures(one: list[Pace], many: list[Pace]) -> list[Figure]:
    """The time of an epoch, and its CPU time; one pace a round."""

    def figure(name: str, what: str, unit: str, of: Callable[[Pace], float], goal: float | None) -> Figure:
        return Figure(
            name=name,
            what=f"{what} of {QUERIES} queries in one job; baseline: one query",
            value=round(median(map(of, many)) / median(map(of, one)), 2),
            unit="x",
            better=Better.LOWER,
            goal=goal,
            samples={f"baseline {unit}": list(map(of, one)), f"tidegate {unit}": list(map(of, many))},
        )

    return [
        figure("scale-queries", "time of an epoch of each", "epoch ms", lambda pace: pace.epoch_ms, None),
        figure("scale-queries-cpu", "CPU time of an epoch", "CPU ms an epoch", lambda pace: pace.cpu_ms, None),
    ]


def _run(spark: SparkSession, place: Path, queries: int, *, quick: bool) -> Pace:
    warm_up, span = (_QUICK_WARM_UP_EPOCHS, _QUICK_SECONDS) if quick else (_WARM_UP_EPOCHS, _SECONDS)
    job = Job("bench", spark=spark, checkpointing_interval=0, checkpointing_dir=str(place / "checkpoints"))
    for number in range(queries):
        source = SparkSource("rate-micro-batch", schema=None, replayable=None, **SOURCE)
        rows = job.source(f"source-{number}", source).select((F.col("value") * 2).alias("v"))
        sink = FileSink(f"sink-{number}", place / f"out-{number}", format="json")
        job.query(f"query-{number}", rows, sinks=[sink])
    return measured_pace(job, warm_up, span)
