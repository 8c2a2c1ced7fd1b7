"""Which cases there are: every strike at every change, every moment, pairs of strikes, and whatever a seed draws."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from enum import Enum

from tests.simulation.saved.stories import Case, Story, tell
from tests.simulation.saved.watched import Hit, Strike


class Family(Enum):
    """The kinds of enumeration."""

    SINGLE = "single"  # one strike: each that fits, at every change from the first command about savepoints on
    MOMENTS = "moments"  # no strike: the savepoint, or the death, at every step of the job
    PAIRS = "pairs"  # two strikes: of every story, each kind of the first at every change, the second behind it
    SEEDS = "seeds"  # a story, a moment and one to four strikes, drawn


@dataclass(slots=True)
class Result:
    """The number of runs, and (key, first complaint) of each bad one."""

    runs: int = 0
    bad: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


def cases(family: Family, *, first: int = 0, seeds: int = 100, stories: Iterable[Story] = Story) -> Iterator[Case]:
    """The cases of a family. `first` and `seeds` say which seeds."""
    if family is Family.SEEDS:
        yield from map(_drawn, range(first, first + seeds))
        return
    for story in stories:
        yield from _OF_STORY[family](story)


def among(story: Story, hit: Hit | None) -> Iterator[Case]:
    """The cases of a story that have this strike alone, far from each other first; or its moments, without any."""
    if hit is None:
        yield from (Case(story, moment) for moment in range(_MOMENT[story], _MOMENTS))
        return
    fitting = [case for case in _single(story) if case.strikes[0].hit is hit]
    for first in range(_FAR):
        yield from fitting[first::_FAR]


_FAR = 23
_MOMENTS = 80


def run(chosen: Iterable[Case], *, processes: int = 2) -> Result:
    """Run cases."""
    result = Result()
    for key, complaint in _outcomes(chosen, processes):
        result.runs += 1
        if complaint:
            result.bad.append((key, complaint))
    return result


def _outcomes(chosen: Iterable[Case], processes: int) -> Iterator[tuple[str, str]]:
    if processes == 1:
        yield from map(run_case, chosen)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(run_case, chosen, chunksize=20)


def run_case(case: Case) -> tuple[str, str]:
    """The key of a case, and what is wrong with it first: nothing, if all is well."""
    gc.disable()  # a run is short and full of generators
    try:
        complaints = tell(case).complaints
    except Exception as error:  # noqa: BLE001 (the case is bad, whatever it is)
        complaints = [f"{type(error).__name__}: {error}"]
    finally:
        gc.enable()
    return case.key, complaints[0] if complaints else ""


def _single(story: Story) -> Iterator[Case]:
    moment = _MOMENT[story]
    told = tell(Case(story, moment))
    for at in range(told.first, told.last + 1):
        hits = [Hit.KILL, Hit.DROP, Hit.EMPTY]
        hits += [Hit.TORN] if at in told.creates else []
        hits += [Hit.BURST] if at <= told.saved else []
        yield from (Case(story, moment, (Strike(hit, at),)) for hit in hits)


def _moments(story: Story) -> Iterator[Case]:
    yield from (Case(story, moment) for moment in range(_MOMENTS))


def _pairs(story: Story) -> Iterator[Case]:
    draw = random.Random(f"pairs of {story.value}")
    for case in _single(story):
        (one,) = case.strikes
        if one.hit is not Hit.BURST:
            other = Strike(draw.choice(_DEADLY), one.at + draw.randint(1, 400))
            yield Case(story, case.moment, (one, other))


def _drawn(seed: int) -> Case:
    draw = random.Random(seed)
    story = draw.choice(list(Story))
    at, strikes = draw.randint(150, 400), list[Strike]()
    for _ in range(draw.randint(1, 4)):
        strikes.append(Strike(draw.choice(list(Hit)), at))
        at += int(draw.expovariate(1 / 250)) + 1
    return Case(story, draw.randint(0, 60), tuple(strikes))


_DEADLY = (Hit.KILL, Hit.TORN, Hit.DROP, Hit.EMPTY)

_MOMENT: dict[Story, int] = dict.fromkeys(Story, 3) | {Story.CRASHED: 14, Story.WINDOWED: 9}
"""When the savepoint is taken, or the job dies, where the strike is what changes."""

_OF_STORY: dict[Family, Callable[[Story], Iterator[Case]]] = {
    Family.SINGLE: _single,
    Family.MOMENTS: _moments,
    Family.PAIRS: _pairs,
}
