"""Twenty queries in one job: how long an epoch of each takes, and what it costs, against one query alone.

Each query has a source of its own, ten rows an epoch, and writes JSON files; its next epoch begins at once. When all
have run for some seconds, their epochs and the CPU time of all processes are counted for a while. *epoch ms* is that
while divided by the epochs of one query, *CPU ms an epoch* the CPU time divided by the epochs of all.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench.epochs import SOURCE
from bench.figures import Better, Figure
from bench.footprint import cpu_seconds_of_session
from bench.session import own_session
from tidegate import FileSink, Job, JobHandle, SparkSource

QUERIES = 20
_WARM_UP_EPOCHS, _SECONDS = 10, 30.0
_QUICK_WARM_UP_EPOCHS, _QUICK_SECONDS = 3, 8.0
_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Pace:
    """Of a job: milliseconds of an epoch of each query, and CPU time of all processes for one."""

    epoch_ms: float
    cpu_ms: float


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


def pace_of(before: Mapping[str, int], after: Mapping[str, int], seconds: float, cpu_seconds: float) -> Pace:
    """From the newest done epoch of each query before and after. Raises ValueError where one did none."""
    epochs = [after[query] - before[query] for query in before]
    if min(epochs) < 1:
        raise ValueError(f"a query had no epoch in {seconds:g} s: {epochs}")
    each = median(seconds / done for done in epochs)
    return Pace(round(each * 1000, 1), round(cpu_seconds / sum(epochs) * 1000, 1))


def _run(spark: SparkSession, place: Path, queries: int, *, quick: bool) -> Pace:
    warm_up, span = (_QUICK_WARM_UP_EPOCHS, _QUICK_SECONDS) if quick else (_WARM_UP_EPOCHS, _SECONDS)
    job = Job("bench", spark=spark, checkpointing_interval=0, checkpointing_dir=str(place / "checkpoints"))
    for number in range(queries):
        source = SparkSource("rate-micro-batch", schema=None, replayable=None, **SOURCE)
        rows = job.source(f"source-{number}", source).select((F.col("value") * 2).alias("v"))
        sink = FileSink(f"sink-{number}", place / f"out-{number}", format="json")
        job.query(f"query-{number}", rows, sinks=[sink])
    handle = job.start()
    try:
        while min(handle.finished().values(), default=-1) < warm_up:
            watch(handle)
        before, begun, cpu = handle.finished(), time.monotonic(), cpu_seconds_of_session()
        while time.monotonic() < begun + span:
            watch(handle)
        return pace_of(before, handle.finished(), time.monotonic() - begun, cpu_seconds_of_session() - cpu)
    finally:
        handle.stop()


def watch(handle: JobHandle) -> None:
    """For a moment. Raises what made the job fail."""
    if handle.wait(_LOOK_SECONDS):
        raise RuntimeError("the job has ended")
