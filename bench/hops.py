"""How long rows take from query to query, from what each of them has done and when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidegate.operate.done_checkpoint import DoneCheckpoint


@dataclass(frozen=True, slots=True)
class Step:
    """At this time, in seconds since 1970, so many rows had come so far, counted from the first row of a run."""

    at: float
    rows: int


def begun(epochs: Iterable[DoneCheckpoint]) -> list[Step]:
    """When the epochs of a query took their rows. `epochs`: of one query, each has shown the rows that it took."""
    return _summed((each.at - (each.duration_ms or 0.0) / 1000, each.rows) for each in epochs)


def done(epochs: Iterable[DoneCheckpoint]) -> list[Step]:
    """When the epochs of a query had shown their rows."""
    return _summed((each.at, each.rows) for each in epochs)


def seconds_until_shown(given: Sequence[Step], shown: Sequence[Step]) -> list[float]:
    """For each step of `given`, until all of its rows were shown. Steps that never were are left out."""
    waits: list[float] = []
    rest = iter(shown)
    newest = next(rest, None)
    for step in given:
        while newest is not None and newest.rows < step.rows:
            newest = next(rest, None)
        if newest is not None:
            waits.append(newest.at - step.at)
    return waits


def _summed(found: Iterable[tuple[float, int]]) -> list[Step]:
    steps: list[Step] = []
    rows = 0
    for at, more in sorted(found):
        rows += more
        steps.append(Step(at, rows))
    return steps
