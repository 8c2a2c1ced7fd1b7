"""What is struck, when and how, and what happens to the files meanwhile, in a seeded order."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import TypeAlias

from tests.campaign.drivers import Target
from tests.campaign.footprint import RECORDS
from tests.campaign.places import QUERIES
from tests.campaign.schedule import At, Kill
from tests.campaign.situations import COMMON_PLACES
from tests.campaign_files.acts import ALIVE, DOWN
from tests.campaign_files.own_points import OWN_POINTS
from tidegate.core.failpoints import TASK_POINTS, Action

LIST = "spark/sources/0"
"""The lists of a query's epochs, which come before `spark/offsets`."""

IN_RECOVERY = ("recover.listed.after", "recover.position.after")
AFTER_DONE = ("keep", "delete", "archive")
_ACTS_AT_MOST = 2


@dataclass(frozen=True, slots=True)
class Inside:
    """SIGKILL at a place of the file source: see `tests.campaign_files.own_points`."""

    place: str

    def __str__(self) -> str:
        return f"{self.place} of the source=crash"


Strike: TypeAlias = At | Kill | Inside


@dataclass(frozen=True, slots=True)
class Step:
    """One strike. `after_done`: what the job does with files meanwhile. `alive`: what happens to files while it runs;
    `down`: before it starts again. `again`: the place in the recovery at which the next driver is killed, too."""

    strike: Strike
    after_done: str = "keep"
    alive: tuple[str, ...] = ()
    down: tuple[str, ...] = ()
    again: str | None = None

    @property
    def kills(self) -> int:
        return 1 if self.again is None else 2

    def __str__(self) -> str:
        again = f", again at {self.again}" if self.again is not None else ""
        return f"{self.strike}{again}"


def plan(seed: int, kills: int) -> list[Step]:
    """Strikes that kill `kills` times, of each kind in turn."""
    chance = random.Random(seed)
    strikes, acts_down, acts_alive = _strikes(chance), _in_turn(chance, DOWN), _in_turn(chance, ALIVE)
    steps: list[Step] = []
    while (left := kills - kills_in(steps)) > 0:
        strike = next(strikes)
        is_down = not _hits_a_worker(strike)
        again = chance.choice(IN_RECOVERY) if is_down and left > 1 and chance.random() < 0.15 else None
        lets_go = isinstance(strike, Inside) and strike.place.startswith("gone")
        steps.append(
            Step(
                strike,
                chance.choice(AFTER_DONE[1:] if lets_go else AFTER_DONE),
                tuple(next(acts_alive) for _ in range(chance.randint(0, _ACTS_AT_MOST))),
                tuple(next(acts_down) for _ in range(chance.randint(0, _ACTS_AT_MOST))) if is_down else (),
                again,
            )
        )
    return steps


def kills_in(steps: Sequence[Step]) -> int:
    """How many processes the steps kill."""
    return sum(step.kills for step in steps)


def _strikes(chance: random.Random) -> Iterator[Strike]:
    """Those at failpoints, behind records, and inside the source, in turn; each kind in a seeded order."""
    at = _in_turn(chance, COMMON_PLACES)
    inside = _in_turn(chance, OWN_POINTS)
    records = _in_turn(chance, (*RECORDS, LIST, LIST))
    while True:
        place = next(at)
        yield At(place, Action.CRASH, jvm_too=place not in TASK_POINTS and chance.random() < 0.5)
        yield Inside(next(inside))
        target = chance.choices((Target.PYTHON, Target.JVM, Target.WORKER), weights=(45, 40, 15))[0]
        yield Kill(target, chance.choice(QUERIES), next(records))


def _in_turn(chance: random.Random, values: Sequence[str]) -> Iterator[str]:
    return cycle(chance.sample(values, len(values)))


def _hits_a_worker(strike: Strike) -> bool:
    match strike:
        case At():
            return strike.place in TASK_POINTS
        case Kill():
            return strike.target is Target.WORKER
        case Inside():
            return False
