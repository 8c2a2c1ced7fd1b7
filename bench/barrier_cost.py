"""What checkpoints across the queries of a job cost its epochs: with one each second, against none.

One query writes a channel, another one counts its rows by key into SQLite; both begin their next epoch at once. Only
the checkpoints differ. *epoch ms* is the time divided by the epochs of one query, *CPU ms an epoch* the CPU time of all
processes divided by the epochs of both.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession

from bench.epochs import SOURCE
from bench.figures import Better, Figure
from bench.pace import Pace, measured_pace
from bench.session import own_session
from tidegate import Job, SparkSource, SQLiteSink
from tidegate.spark import starting

NEVER_SECONDS = 1e9
_WARM_UP_EPOCHS, _SECONDS = 20, 30.0
_QUICK_WARM_UP_EPOCHS, _QUICK_SECONDS = 3, 8.0
SIDES = ("none", "aligned", "unaligned")


def measure(rounds: int, *, quick: bool) -> list[Figure]:
    """Every round runs without checkpoints and with each kind, every other round in the opposite order: a JVM gets
    faster for minutes. One run warms it before.
    """
    runs: dict[str, list[Pace]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, own_session() as spark:
        _run(spark, Path(folder) / "warm", "aligned", quick=True)
        for number in range(rounds):
            for side in SIDES if number % 2 == 0 else reversed(SIDES):
                runs[side].append(_run(spark, Path(folder) / f"{side}-{number}", side, quick=quick))
    return [
        figure for side in SIDES if side != "none" for figure in figures(side, runs["none"], runs[side], quick=quick)
    ]


def figures(side: str, none: list[Pace], taken: list[Pace], *, quick: bool) -> list[Figure]:
    """One pace a round: without checkpoints, and with those of one kind."""

    def samples(unit: str, of: Callable[[Pace], float]) -> dict[str, list[float]]:
        return {f"baseline {unit}": list(map(of, none)), f"tidegate {unit}": list(map(of, taken))}

    what = f"of a chain of two queries with a checkpoint a second, {side}; baseline: without checkpoints"
    epoch = samples("epoch ms", lambda pace: pace.epoch_ms)
    cpu = samples("CPU ms an epoch", lambda pace: pace.cpu_ms)
    return [
        Figure(
            name=f"barrier-{side}-cpu",
            what=f"CPU time of an epoch {what}",
            value=round(median(cpu["tidegate CPU ms an epoch"]) / median(cpu["baseline CPU ms an epoch"]), 3),
            unit="x",
            better=Better.LOWER,
            goal=None if quick else 1.05,
            samples=cpu,
        ),
        Figure(
            name=f"barrier-{side}-epoch",
            what=f"time added to an epoch {what}",
            value=round(median(epoch["tidegate epoch ms"]) - median(epoch["baseline epoch ms"]), 1),
            unit="ms",
            better=Better.LOWER,
            goal=None if quick else 30.0,
            samples=epoch,
        ),
    ]


def _run(spark: SparkSession, place: Path, side: str, *, quick: bool) -> Pace:
    warm_up, span = (_QUICK_WARM_UP_EPOCHS, _QUICK_SECONDS) if quick else (_WARM_UP_EPOCHS, _SECONDS)
    place.mkdir()
    job = Job(
        "bench",
        spark=spark,
        checkpointing_interval=0,
        checkpointing_dir=str(place / "job"),
        checkpointing_unaligned=side == "unaligned",
    )
    source = SparkSource("rate-micro-batch", schema=None, replayable=None, **SOURCE)
    values = job.channel("values")
    job.query("write", job.source("rows", source), sinks=[values])
    counts = job.source("values-in", values).selectExpr("value % 100 AS key").groupBy("key").count()
    table = SQLiteSink("table", str(place / "out.db"), table="counts", key="key")
    job.query("count", counts, mode="update", sinks=[table])
    with checkpoints_apart(NEVER_SECONDS if side == "none" else 1.0):
        return measured_pace(job, warm_up, span)


@contextmanager
def checkpoints_apart(seconds: float) -> Generator[None]:
    """A job that starts in the block waits so long between two checkpoints."""
    usual, starting.CHECKPOINTS_APART_SECONDS = starting.CHECKPOINTS_APART_SECONDS, seconds
    try:
        yield
    finally:
        starting.CHECKPOINTS_APART_SECONDS = usual
