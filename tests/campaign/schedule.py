"""What is struck, when and how, in a seeded order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tests.campaign.damage import DAMAGES
from tests.campaign.drivers import Target
from tests.campaign.footprint import RECORDS
from tests.campaign.places import QUERIES
from tests.campaign.scenarios import SCENARIOS
from tests.campaign.situations import (
    COMMON_PLACES,
    PASSED_BY_BOTH,
    Situation,
    actions_at,
    exact_places,
    point_of,
    remote_places,
    situation_of,
)
from tidegate.core.failpoints import TASK_POINTS, Action

_COMMON = (Situation.EPOCH, Situation.LATE, Situation.RESTART)
_STALLED = (
    *("compute.before", "sync.after", "prepared.before", "prepared.after", "decision.before", "decision.after"),
    *("commit.before", "done.before", "finished.before"),
)
_LATE_FROM = 20
"""Spark keeps ten entries of its log, the ledger as many, so that the first goes after some epochs more."""


@dataclass(frozen=True, slots=True)
class At:
    """A strike at a failpoint.

    `jvm_too`: the process only stands still there, and then all of the driver is killed. `in_recovery`: not while the
    epoch runs, but while recovery finishes what an older run has left of it.
    """

    place: str
    action: Action
    jvm_too: bool = False
    in_recovery: bool = False

    def __str__(self) -> str:
        jvm = " with its JVM" if self.jvm_too else ""
        return f"{self.place}={self.action.value}{jvm}{' in recovery' if self.in_recovery else ''}"


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL to one process, a moment after a record of one query has appeared."""

    target: Target
    query: str
    record: str

    def __str__(self) -> str:
        return f"kill the {self.target.value} behind {self.record} of {self.query}"


@dataclass(frozen=True, slots=True)
class Pause:
    """SIGSTOP to one process a moment after a record has appeared, and SIGCONT some moments later.

    `beside`: meanwhile another driver tries to start, and is refused.
    """

    target: Target
    query: str
    record: str
    beside: bool

    def __str__(self) -> str:
        beside = ", another driver tries meanwhile" if self.beside else ""
        return f"stop the {self.target.value} behind {self.record} of {self.query} for a while{beside}"


@dataclass(frozen=True, slots=True)
class Stall:
    """The driver stands still at a failpoint for longer than its lease. The next driver takes over; then the first
    one resumes. For a lease that is not a lock.

    `jvm_too`: its JVM stands still as well; otherwise the JVM may still write.
    """

    place: str
    jvm_too: bool

    def __str__(self) -> str:
        jvm = " and its JVM" if self.jvm_too else ""
        return f"stop the driver{jvm} at {self.place} until the next one has taken over"


@dataclass(frozen=True, slots=True)
class Damage:
    """Something happens to Spark's log of one query between two runs."""

    query: str
    name: str

    def __str__(self) -> str:
        return f"{self.name}, {self.query}"


@dataclass(frozen=True, slots=True)
class Scenario:
    """A story of several starts; see `tests.campaign.scenarios`."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class StoreStrike:
    """The store of the sinks is struck, in its own way, a moment after a record of one query has appeared."""

    query: str
    record: str

    def __str__(self) -> str:
        return f"strike the store behind {self.record} of {self.query}"


Step: TypeAlias = At | Kill | Pause | Stall | Damage | Scenario | StoreStrike


def kills_in(steps: Sequence[Step]) -> int:
    """How many processes the steps kill."""
    return sum(1 for step in steps if isinstance(step, Kill) or (isinstance(step, At) and step.action is Action.CRASH))


def plan_common(seed: int, kills: int) -> list[Step]:
    """`kills` kills that the job of any delivery level can take: the same ones, so that the levels can be compared."""
    chance = random.Random(seed)
    struck = [At(place, Action.CRASH, _jvm_too(chance, place)) for place in COMMON_PLACES][:kills]
    steps: list[Step] = [*struck, *(_kill(chance) for _ in range(kills - len(struck)))]
    chance.shuffle(steps)
    return steps


def plan_remote(seed: int, kills: int, *, cluster: bool = False) -> list[Step]:
    """`kills` kills, a quarter as many errors, an eighth as many pauses and a quarter as many stalls: what needs no
    hand in the files of the checkpoint."""
    chance = random.Random(seed)
    places = remote_places(cluster=cluster)
    crashes = [At(place, Action.CRASH, _jvm_too(chance, place), _in_recovery(chance, place)) for place in places]
    struck = crashes if kills >= len(crashes) else _sample(chance, crashes, (kills + 1) // 2)
    errors = [At(place, action) for place in places for action in actions_at(place) if action is not Action.CRASH]
    steps: list[Step] = [
        *struck,
        *(_kill(chance, executors=cluster) for _ in range(kills - len(struck))),
        *chance.sample(errors, min(len(errors), kills // 4)),
        *(replace(_pause(chance), beside=False) for _ in range(max(1, kills // 8))),
        *(Stall(chance.choice(_STALLED), chance.random() < 0.5) for _ in range(max(2, kills // 4))),
    ]
    chance.shuffle(steps)
    return _late_ones_last(steps)


def plan_store(seed: int, kills: int, places: Sequence[str]) -> list[Step]:
    """`kills` kills, half of them at failpoints among `places`, a quarter as many errors, an eighth as many pauses and
    strikes at the store of the sinks."""
    chance = random.Random(seed)
    crashes = [At(place, Action.CRASH, _jvm_too(chance, place), _in_recovery(chance, place)) for place in places]
    struck = _sample(chance, crashes, kills // 2)
    errors = [At(place, action) for place in places for action in actions_at(place) if action is not Action.CRASH]
    steps: list[Step] = [
        *struck,
        *(_kill(chance) for _ in range(kills - len(struck))),
        *chance.sample(errors, min(len(errors), kills // 4)),
        *(_pause(chance) for _ in range(max(1, kills // 8))),
        *(StoreStrike(chance.choice(QUERIES), chance.choice(RECORDS)) for _ in range(max(1, kills // 8))),
    ]
    chance.shuffle(steps)
    return _late_ones_last(steps)


def plan(seed: int, kills: int) -> list[Step]:
    """`kills` kills and, in proportion, errors, lost answers, pauses, damages and scenarios, in a seeded order.

    As soon as there are enough kills for one at each place, every place has every action; with fewer it is a sample
    that has every rare situation in it.
    """
    chance = random.Random(seed)
    places = exact_places()
    crashes = [At(place, Action.CRASH, _jvm_too(chance, place), _in_recovery(chance, place)) for place in places]
    whole = kills >= len(crashes)
    struck = crashes if whole else _sample(chance, crashes, (kills + 1) // 2)
    random_kills = [_kill(chance) for _ in range(kills - len(struck))]
    errors = [
        At(place, action, in_recovery=_in_recovery(chance, place))
        for place in places
        for action in actions_at(place)
        if action is not Action.CRASH
    ]
    steps: list[Step] = [
        *struck,
        *random_kills,
        *(errors if whole else _sample(chance, errors, kills // 2)),
        *(_pause(chance) for _ in range(max(3, kills // 8))),
        *(Damage(chance.choice(QUERIES), name) for name in _some(chance, list(DAMAGES), whole, kills // 4)),
        *(Scenario(name) for name in _some(chance, list(SCENARIOS), whole, kills // 6)),
    ]
    chance.shuffle(steps)
    return _late_ones_last(steps)


def _jvm_too(chance: random.Random, place: str) -> bool:
    return place not in TASK_POINTS and chance.random() < 0.6


def _in_recovery(chance: random.Random, place: str) -> bool:
    return point_of(place) in PASSED_BY_BOTH and chance.random() < 0.3


def _sample(chance: random.Random, all_of_them: list[At], count: int) -> list[At]:
    """One of each rare situation first, then whatever comes."""
    shuffled = chance.sample(all_of_them, len(all_of_them))
    situations = {situation_of(each.place) for each in shuffled} - set(_COMMON)
    rare = [
        next(each for each in shuffled if situation_of(each.place) is rare) for rare in Situation if rare in situations
    ]
    rest = [each for each in shuffled if each not in rare and situation_of(each.place) is not Situation.LATE]
    return [*rare, *rest][: max(count, 0)]


def _some(chance: random.Random, names: list[str], whole: bool, count: int) -> list[str]:
    return names if whole else chance.sample(names, min(len(names), max(1, count)))


def _kill(chance: random.Random, *, executors: bool = False) -> Kill:
    weights = {Target.PYTHON: 35, Target.JVM: 25, Target.WORKER: 40, **({Target.EXECUTOR: 50} if executors else {})}
    target = chance.choices(list(weights), weights=list(weights.values()))[0]
    return Kill(target, chance.choice(QUERIES), chance.choice(RECORDS))


def _pause(chance: random.Random) -> Pause:
    target = chance.choice([Target.PYTHON, Target.JVM, Target.WORKER])
    return Pause(target, chance.choice(QUERIES), chance.choice(RECORDS), beside=chance.random() < 0.3)


def _late_ones_last(steps: list[Step]) -> list[Step]:
    """What needs many epochs comes behind the first steps; each step is at least one epoch."""

    def is_late(step: Step) -> bool:
        return isinstance(step, At) and situation_of(step.place) is Situation.LATE

    head, tail = steps[:_LATE_FROM], steps[_LATE_FROM:]
    return [*(each for each in head if not is_late(each)), *tail, *(each for each in head if is_late(each))]
