"""Which cases there are: single strikes, ordered pairs, drivers that stand still beside their successor, late commits.

A *stem* is a case whose last strikes are still to be chosen; `expand` gives its cases. After an effect that only
reads, the world is as it was before: one strike of a kind between two changes stands for all of them in pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from math import isqrt
from typing import Final

from tests.world.cases import POWER, Case, Hit
from tests.world.world import Point, points_of


class Family(Enum):
    """The kinds of enumeration.

    SINGLE: one strike. KILLS: two, each kill -9 or a power loss. PAIR: two of any kind. STALL: a driver stands still
    beside its successor, and goes on. LATE: a commit arrives later. REDO: STALL while lost transactions are redone.
    """

    SINGLE = "single"
    KILLS = "kills"
    PAIR = "pair"
    STALL = "stall"
    LATE = "late"
    REDO = "redo"


@dataclass(frozen=True, slots=True)
class Stem:
    """A case, and what is to be chosen after it."""

    family: Family
    case: Case
    stride: int = 1
    offset: int = 0


def stems(family: Family, configuration: str, stride: int = 1, seed: int = 0) -> list[Stem]:
    """The stems of a family in one configuration; with a stride, about one case in `stride` is left. `seed` says which.

    Finding out what may strike second costs a run per stem: so of long lists each `isqrt(stride)`-th stem is taken,
    and of its cases as many fewer.
    """
    root = Case(configuration)
    if family is Family.SINGLE:
        return [Stem(family, root, stride, seed % stride)]
    if family is Family.REDO:
        chosen = _redos(root)
    else:
        chosen = [root.then(hit, point.at) for point in points_of(root) for hit in _first(family, point)]
    step = isqrt(stride)
    inner = stride // step
    return [Stem(family, case, inner, (index + seed) % inner) for index, case in enumerate(chosen[seed % step :: step])]


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
        case Family.PAIR | Family.KILLS:
            for point in points_of(stem.case):
                if point.changes:
                    wanted = _WANTED[stem.family]
                    yield from (stem.case.then(hit, point.at) for hit in point.hits if hit in wanted)
        case Family.STALL | Family.REDO:
            for point in points_of(stem.case):
                if point.changes:
                    yield stem.case.then(Hit.RUSH, point.at)
                    yield stem.case.then(Hit.TURNS, point.at)
        case Family.LATE:
            yield from (stem.case.then(Hit.DELIVER, point.at) for point in points_of(stem.case) if point.changes)


def _redos(root: Case) -> list[Case]:
    """A driver whose transactions time out at a commit stands still while it writes them again."""
    lost = [root.then(Hit.TIMEOUT, point.at) for point in points_of(root) if Hit.DELAY in point.hits]
    return [
        case.then(Hit.PAUSE, point.at)
        for case in lost
        for point in points_of(case)[:REDO_STEPS]
        if Hit.PAUSE in point.hits
    ]


REDO_STEPS: Final = 24
"""So many steps after the loss the redo of two transactions is over."""


def _first(family: Family, point: Point) -> Iterator[Hit]:
    """The first strike: standing still between two reads matters, dying there does not."""
    wanted = _WANTED[family]
    return (hit for hit in point.hits if hit in wanted and (point.changes or hit is Hit.PAUSE))


_WANTED: Final = {
    Family.KILLS: frozenset({Hit.KILL, Hit.POWER_DROP}),
    Family.PAIR: frozenset({Hit.KILL, Hit.ERROR, Hit.LOST, Hit.TIMEOUT, Hit.HALF, *POWER}),
    Family.STALL: frozenset({Hit.PAUSE, Hit.JVM}),
    Family.LATE: frozenset({Hit.DELAY}),
}
