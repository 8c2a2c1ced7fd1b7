"""The work of the Kafka benchmarks through other systems, each as its own users would set it up, and through tidegate
in SQL, exactly-once. What the others promise is theirs: Quix Streams exactly-once, Bytewax and Spark's own sink
at-least-once."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench import entrants
from bench.contests import EVENTS, FEW_EVENTS, QUICK_EVENTS, WORKS, Contest, Quantity, measure_contests
from bench.environments import BYTEWAX, QUIX, Environment
from bench.figures import Figure
from bench.kafka_cluster import fast_broker
from bench.watched import Course, Entrant

_HALF = {Quantity.WHOLE: 0.5, Quantity.NET: 0.5}


@dataclass(frozen=True, slots=True)
class Other:
    """One of the other systems. `needs`: the environment that has it, if it is not tidegate's own."""

    what: str
    entrant: Callable[[], Entrant]
    needs: Environment | None
    goals: Mapping[Quantity, float]


OTHERS: Mapping[str, Other] = {
    "quix": Other("against Quix Streams, exactly-once", entrants.quix, QUIX, _HALF),
    "bytewax": Other("against Bytewax, at-least-once", entrants.bytewax, BYTEWAX, _HALF),
    "spark": Other("against Spark's own sink, at-least-once", entrants.spark, None, {}),
}


@dataclass(frozen=True, slots=True)
class Case:
    """One work through one of them."""

    work: str
    other: Other

    @property
    def needs(self) -> Environment | None:
        return self.other.needs


CASES: Mapping[str, Case] = {
    f"kafka-{name}-{work}": Case(work, other) for name, other in OTHERS.items() for work in WORKS
}


def measure(name: str, rounds: int, *, quick: bool) -> list[Figure]:
    """The figures of one case."""
    case, many = CASES[name], QUICK_EVENTS if quick else EVENTS
    contest = Contest("", case.other.what, case.other.entrant(), entrants.tidegate("sql"), case.other.goals)
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, fast_broker(Path(folder)) as broker:
        course = Course.with_events(Path(folder), broker.servers, FEW_EVENTS, many)
        return measure_contests(name, case.work, [contest], course, rounds, quick=quick)
