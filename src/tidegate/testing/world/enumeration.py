"""Which cases there are: single strikes, ordered pairs, drivers that stand still beside their successor, late commits.

A *stem* is a case whose last strikes are still to be chosen; `expand` gives its cases. After an effect that only
reads, the world is as it was before: one strike of a kind between two changes stands for all of them in pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from tidegate.testing.world.cases import POWER, Case, Hit
from tidegate.testing.world.configurations import CONFIGURATIONS
from tidegate.testing.world.world import Point, points_of


class Family(Enum):
    """The kinds of enumeration."""

    SINGLE = "single"
    PAIR = "pair"
    STALL = "stall"
    LATE = "late"


@dataclass(frozen=True, slots=True)
class Stem:
    """A case, and what is to be chosen after it."""

    family: Family
    case: Case
    stride: int = 1
    offset: int = 0


def stems(family: Family, configuration: str, stride: int = 1) -> list[Stem]:
    """The stems of a family in one configuration. With a stride, each takes every `stride`-th of its cases."""
    root = Case(configuration)
    if family is Family.SINGLE:
        return [Stem(family, root, stride)]
    points = points_of(root)
    chosen = [root.then(hit, point.at) for point in points for hit in _first(family, point)]
    return [Stem(family, case, stride, index % stride) for index, case in enumerate(chosen)]


def expand(stem: Stem) -> Iterator[Case]:
    """The cases of a stem."""
    for index, case in enumerate(_all(stem)):
        if index % stem.stride == stem.offset:
            yield case


def _all(stem: Stem) -> Iterator[Case]:
    match stem.family:
        case Family.SINGLE:
            for point in points_of(stem.case):
                yield from (stem.case.then(hit, point.at) for hit in point.hits if hit not in (Hit.PAUSE, Hit.DELAY))
        case Family.PAIR:
            for point in points_of(stem.case):
                if point.changes:
                    yield from (stem.case.then(hit, point.at) for hit in point.hits if hit in _IN_PAIRS)
        case Family.STALL:
            for point in points_of(stem.case):
                if point.changes:
                    yield stem.case.then(Hit.RUSH, point.at)
                    yield stem.case.then(Hit.TURNS, point.at)
        case Family.LATE:
            yield from (stem.case.then(Hit.DELIVER, point.at) for point in points_of(stem.case) if point.changes)


def _first(family: Family, point: Point) -> Iterator[Hit]:
    """The first strike: standing still between two reads matters, dying there does not."""
    wanted = {Family.PAIR: _IN_PAIRS, Family.STALL: _STALLS, Family.LATE: _LATE}[family]
    return (hit for hit in point.hits if hit in wanted and (point.changes or hit is Hit.PAUSE))


_IN_PAIRS: Final = frozenset(Hit) - {Hit.PAUSE, Hit.DELAY, Hit.DELIVER, Hit.RUSH, Hit.TURNS}
_STALLS: Final = frozenset({Hit.PAUSE, Hit.JVM})
_LATE: Final = frozenset({Hit.DELAY})
LOCAL: Final = tuple(name for name, each in CONFIGURATIONS.items() if each.local_lease)
REMOTE: Final = tuple(name for name, each in CONFIGURATIONS.items() if not each.local_lease)
POWER_HITS: Final = frozenset(POWER)
