"""The work of the Kafka benchmarks through PyFlink and through tidegate, both exactly-once, and through tidegate at
at-least-once. Each side is set up as its users do: tidegate's have the archive of Spark's classes."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.contests import EVENTS, FEW_EVENTS, QUICK_EVENTS, Contest, Quantity, measure_contests
from bench.entrants import pyflink, tidegate
from bench.figures import Figure
from bench.kafka_cluster import fast_broker
from bench.watched import Course

CASES: Mapping[str, str] = {"kafka-flink-map": "map", "kafka-flink-count": "count"}
"""What is done with the events, by the name of the benchmark."""

_MEMORY = {Quantity.MEMORY: 1.0}
_SQL_GOALS: Mapping[str, Mapping[Quantity, float]] = {
    "map": {Quantity.WHOLE: 1.1, Quantity.NET: 1.0, **_MEMORY},
    "count": {Quantity.WHOLE: 1.2, Quantity.NET: 1.1, **_MEMORY},
}
_PYTHON_GOALS = {Quantity.WHOLE: 0.8, Quantity.NET: 0.6, **_MEMORY}
_LEVEL_GOALS = {Quantity.WHOLE: 1.0, Quantity.NET: 1.0}


def contests(work: str) -> Sequence[Contest]:
    """What is compared with what, and the goals."""
    sql, python = tidegate("sql"), tidegate("python")
    return (
        Contest("", "SQL, against PyFlink's", pyflink("sql"), sql, _SQL_GOALS[work]),
        Contest("-python", "a Python function, against PyFlink's", pyflink("python"), python, _PYTHON_GOALS),
        Contest("-pandas", "a Python function, against PyFlink's over Arrow (pandas)", pyflink("pandas"), python, {}),
        Contest("-level", "at-least-once, against exactly-once", sql, tidegate("sql", "at-least-once"), _LEVEL_GOALS),
    )


def measure(name: str, rounds: int, *, quick: bool) -> list[Figure]:
    """The figures of one case."""
    work, many = CASES[name], QUICK_EVENTS if quick else EVENTS
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, fast_broker(Path(folder)) as broker:
        course = Course.with_events(Path(folder), broker.servers, FEW_EVENTS, many)
        return measure_contests(name, work, contests(work), course, rounds, quick=quick)
