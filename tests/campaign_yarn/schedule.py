"""What is struck, in a seeded order: every target, at failpoints and at any moment. YARN brings the next driver."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import cycle

from tests.campaign.drivers import Target
from tests.campaign.footprint import RECORDS
from tests.campaign.places import QUERIES
from tests.campaign.schedule import At, Kill, Step
from tests.campaign.situations import Situation, remote_places, situation_of
from tidegate.core.failpoints import TASK_POINTS, Action

_HOW = (Situation.EPOCH, Situation.RESTART)
_KINDS = ("place", "master", "worker", "executor", "place", "driver", "master", "place")
"""The kills of a plan, in turn: at a failpoint, of the application master, and so on."""

_TARGETS = {
    "master": Target.JVM,
    "driver": Target.PYTHON,
    "worker": Target.WORKER,
    "executor": Target.EXECUTOR,
}


def places() -> list[str]:
    """The places that the job passes on YARN without a hand in its files."""
    return [place for place in remote_places(cluster=True) if situation_of(place) in _HOW]


def plan(seed: int, kills: int) -> list[Step]:
    """`kills` kills: of the application master (its JVM), of the driver's Python, of both at once, of executors and of
    their Python workers."""
    chance = random.Random(seed)
    struck = iter(_at_places(chance, kills))
    kinds = [kind for kind, _ in zip(cycle(_KINDS), range(kills), strict=False)]
    chance.shuffle(kinds)
    return [next(struck) if kind == "place" else _kill(chance, _TARGETS[kind]) for kind in kinds]


def _at_places(chance: random.Random, count: int) -> list[At]:
    """As many different ones as there are."""
    found = chance.sample(places(), len(places()))
    found += [chance.choice(found) for _ in range(max(0, count - len(found)))]
    return [At(place, Action.CRASH, place not in TASK_POINTS and chance.random() < 0.5) for place in found[:count]]


def _kill(chance: random.Random, target: Target) -> Kill:
    return Kill(target, chance.choice(QUERIES), chance.choice(RECORDS))


def never_passed(passed: Sequence[str]) -> list[str]:
    """The places of the plan that no process has passed."""
    return [place for place in places() if place not in passed]
