"""Whether the time of an epoch follows the keys that it changes, or the keys that are in its state.

A job counts by key. Its first epochs bring all keys. Then it runs three stretches of epochs, which change 10, 100 and
1,000 keys each, spread over all keys; each epoch begins at once. Two such jobs take turns: one with few keys in its
state (the columns call it the baseline), one with many. A figure is the median time of an epoch of the second job
divided by that of the first. With equal changes the goal is 1, and a tenth for noise; with a hundred times the state
and ten times the changes it is 10.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from bench.epochs import ROWS, SOURCE
from bench.figures import Better, Figure
from bench.seen import Seen, told
from bench.session import own_session
from tidegate import FileSink, Job, SparkSource

CHANGED = (10, 100, 1000)
FEW_KEYS = 10_000
_QUICK_SHARE = 10
_FILLING = 4
"""So many epochs bring all keys."""
_WARM_UP = 5
_SPREAD = 7919
"""A prime that divides no number of keys here: multiples of it meet all keys before one comes again."""
_SAME_CHANGES = 1.1
_GOALS: Mapping[tuple[int, int], float] = {(10, 10): _SAME_CHANGES, (1000, 1000): _SAME_CHANGES, (100, 1000): 10.0}
"""By how many keys an epoch changes, with few keys in state and with many."""
_BOUND_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Case:
    backend: str
    many_keys: int


ON_REQUEST = "scale-state-ten-million"
"""The case that takes too long to be part of every run of the suite."""
CASES: Mapping[str, Case] = {
    "scale-state-rocksdb": Case("rocksdb", 1_000_000),
    "scale-state-hashmap": Case("hashmap", 1_000_000),
    ON_REQUEST: Case("rocksdb", 10_000_000),
}


@dataclass(frozen=True, slots=True)
class Times:
    """Of one job: how long all keys took to come, and the milliseconds of an epoch by the keys that it changes."""

    filling_seconds: float
    epoch_ms: Mapping[int, float]


def measure(name: str, rounds: int, *, quick: bool) -> list[Figure]:
    """The figures of one backend. A job with few keys warms the JVM before the first round."""
    case, epochs = CASES[name], 10 if quick else 40
    few, many = (keys // (_QUICK_SHARE if quick else 1) for keys in (FEW_KEYS, case.many_keys))
    runs: list[tuple[Times, Times]] = []
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, own_session() as spark:
        places = (Path(folder) / str(number) for number in range(1 + 2 * rounds))
        _run(spark, case.backend, next(places), few, epochs)
        for _ in range(rounds):
            of_few = _run(spark, case.backend, next(places), few, epochs)
            runs.append((of_few, _run(spark, case.backend, next(places), many, epochs)))
    return figures(name, case.backend, (few, many), runs)


def figures(name: str, backend: str, keys: tuple[int, int], runs: Sequence[tuple[Times, Times]]) -> list[Figure]:
    """From the times of the job with few keys and of the one with many, one pair a round."""
    return [
        Figure(
            name=f"{name}-{of_many}" if of_few == of_many else f"{name}-both",
            what=f"time of an epoch that changes {of_many:,} of {keys[1]:,} keys in state, {backend}; "
            f"baseline: one that changes {of_few:,} of {keys[0]:,} keys",
            value=round(median(m.epoch_ms[of_many] for _, m in runs) / median(f.epoch_ms[of_few] for f, _ in runs), 2),
            unit="x",
            better=Better.LOWER,
            goal=goal,
            samples={
                "baseline epoch ms": [each.epoch_ms[of_few] for each, _ in runs],
                "tidegate epoch ms": [each.epoch_ms[of_many] for _, each in runs],
                "tidegate s until all keys are there": [each.filling_seconds for _, each in runs],
            },
        )
        for (of_few, of_many), goal in _GOALS.items()
    ]


def stretches(epochs: int) -> list[tuple[int, int, int]]:
    """What is measured: the keys that an epoch changes, the first epoch, and the one behind the last."""
    length = _WARM_UP + epochs
    begins = range(_FILLING, _FILLING + length * len(CHANGED), length)
    return [(changed, begin + _WARM_UP, begin + length) for changed, begin in zip(CHANGED, begins, strict=True)]


def _run(spark: SparkSession, backend: str, place: Path, keys: int, epochs: int) -> Times:
    plan = stretches(epochs)
    seen = Seen.of_job(place / "checkpoints", plan[-1][2])
    checkpoints = str(place / "checkpoints")
    job = Job("bench", spark=spark, checkpointing_interval=0, checkpointing_dir=checkpoints, state_backend=backend)
    rows = job.source("source", SparkSource("rate-micro-batch", schema=None, replayable=None, **SOURCE))
    counts = rows.select(_key(keys, [end for _, _, end in plan]).alias("k")).groupBy("k").agg(F.count("*").alias("v"))
    sink = FileSink("sink", place / "out", format="parquet")
    job.query("query", counts.where("v > 1"), mode="update", sinks=[sink])
    begun = time.time()
    with told(seen):
        handle = job.start()
        try:
            seen.wait(_BOUND_SECONDS)
        finally:
            handle.stop()
    filling = round(seen.visible[_FILLING - 1] - begun, 1)
    return Times(filling, {changed: seen.period_ms(first, behind) for changed, first, behind in plan})


def _key(keys: int, ends: Sequence[int]) -> Column:
    """The keys that a row stands for. The first rows share all keys out, each later row stands for the tenth part of
    what its epoch changes."""
    value, share = F.col("value"), keys // (_FILLING * ROWS)
    filling = F.sequence(value * share, value * share + (share - 1))
    drawn = F.when(value < _FILLING * ROWS, filling)
    for changed, end in zip(CHANGED, ends, strict=True):
        each = changed // ROWS
        numbers = F.sequence(value * each, value * each + (each - 1))
        spread = F.transform(numbers, lambda number: number * _SPREAD % F.lit(keys))
        drawn = drawn.when(value < end * ROWS, spread)
    return F.explode(drawn.otherwise(F.array(value % F.lit(keys))))
