"""What is struck, when and how, in a seeded order."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import cycle, islice
from typing import TypeAlias

from tests.campaign.footprint import RECORDS
from tests.campaign.places import QUERIES
from tests.campaign_kafka.scene import TRANSACTION_SECONDS


class Victim(Enum):
    """Which processes a strike hits."""

    PYTHON = "driver"
    JVM = "JVM"
    BOTH = "driver and JVM"
    WORKER = "worker"
    BROKER = "broker"


@dataclass(frozen=True, slots=True)
class Moment:
    """When: as soon as a new record of a query has appeared, and then some milliseconds later. None: at any time."""

    query: str
    record: str

    def __str__(self) -> str:
        return f"behind {self.record} of {self.query}"


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL; what was killed starts again. `late`: only when the broker has aborted what was open."""

    victim: Victim
    moment: Moment | None
    late: bool = False

    def __str__(self) -> str:
        late = ", start again after the transaction timeout" if self.late else ""
        return f"kill the {self.victim.value} {self.moment or 'at any time'}{late}"


@dataclass(frozen=True, slots=True)
class Pause:
    """SIGSTOP, and SIGCONT so many seconds later. `beside`: another driver tries to start meanwhile, and is refused."""

    victim: Victim
    moment: Moment | None
    seconds: float
    beside: bool = False

    def __str__(self) -> str:
        beside = ", another driver tries meanwhile" if self.beside else ""
        return f"stop the {self.victim.value} for {self.seconds:.1f} s {self.moment or 'at any time'}{beside}"


Step: TypeAlias = Kill | Pause

_PAUSED = (Victim.BROKER, Victim.JVM, Victim.PYTHON, Victim.WORKER)
_SECONDS = (0.5, 5.0)
_PAST_THE_TIMEOUT = TRANSACTION_SECONDS + 3.0
_OPEN = ("ledger/prepared", "spark/commits", "ledger/decided")
"""Behind these the epoch's transactions are prepared and not all ended."""
_AT_ANY_TIME = 6
"""So many strikes come at any time, for one behind each record of each query."""


def plan(seed: int, kills: int) -> list[Step]:
    """`kills` kills of each victim in turn and a quarter as many pauses, in a seeded order.

    Of four kills of a whole driver one is late; of five pauses one is longer than the transaction timeout.
    """
    chance = random.Random(seed)
    behind: list[Moment | None] = [Moment(query, record) for query in QUERIES for record in RECORDS]
    moments = _in_turn(chance, [*behind, *[None] * _AT_ANY_TIME])
    steps: list[Step] = []
    for index, victim in enumerate(islice(cycle(Victim), kills)):
        late = victim is Victim.BOTH and index // len(Victim) % 4 == 0
        moment = Moment(chance.choice(QUERIES), chance.choice(_OPEN)) if late else next(moments)
        steps.append(Kill(victim, moment, late))
    for index, victim in enumerate(islice(cycle(_PAUSED), max(2, kills // 4))):
        seconds = _PAST_THE_TIMEOUT if index % 5 == 0 else chance.uniform(*_SECONDS)
        beside = victim in (Victim.JVM, Victim.PYTHON) and chance.random() < 0.5
        steps.append(Pause(victim, next(moments), seconds, beside))
    chance.shuffle(steps)
    return steps


def kills_in(steps: Sequence[Step]) -> int:
    """How many of the steps kill."""
    return sum(isinstance(step, Kill) for step in steps)


def _in_turn(chance: random.Random, moments: Sequence[Moment | None]) -> Iterator[Moment | None]:
    """All of them in a seeded order, again and again."""
    return cycle(chance.sample(moments, len(moments)))
