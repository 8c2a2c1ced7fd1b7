"""A run of the world in one line: the configuration, and what strikes when.

    stateful-sk:kill@12+power.drop@40

A strike's number counts the steps since the strike before it (or since the begin).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tests.world.disk import Loss


class Hit(Enum):
    """What can strike before a step, or in its place."""

    KILL = "kill"  # the driver is gone, its JVM with it
    JVM = "jvm"  # the Python part is gone; the JVM goes on until it needs it
    ERROR = "error"  # the step raises and does nothing
    LOST = "lost"  # the step is done, and raises
    TASK = "task"  # a task attempt is lost; Spark runs another one
    TIMEOUT = "timeout"  # the open transactions of every sink time out
    RETRY = "retry"  # a sink answers that it is not ready, and has done nothing
    MUTE = "mute"  # a sink has committed, and its answer is lost on the way
    DELAY = "delay"  # a commit is answered by a timeout, and arrives later
    DELIVER = "deliver"  # the delayed commit arrives
    HALF = "half"  # the driver dies when a sink has committed its first transaction
    HALF_POWER = "half-power"  # the same, by a power loss that drops what was not synced
    PAUSE = "pause"  # the driver stands still, and a successor starts
    RUSH = "rush"  # the driver that stood still goes on, alone as long as it can
    TURNS = "turns"  # it goes on in turns with its successor
    POWER_KEEP = "power.keep"
    POWER_DROP = "power.drop"
    POWER_EMPTY = "power.empty"
    POWER_CUT = "power.cut"
    POWER_COMMITS = "power.commits"
    POWER_OFFSETS = "power.offsets"
    POWER_STATE = "power.state"
    POWER_REORDER = "power.reorder"
    POWER_UNDELETE = "power.undelete"


POWER: dict[Hit, Loss] = {Hit(f"power.{loss.value}"): loss for loss in Loss}
POWER_OF: dict[Loss, Hit] = {loss: hit for hit, loss in POWER.items()}


@dataclass(frozen=True, slots=True)
class Strike:
    """`hit` strikes at the step number `at` after the strike before it."""

    hit: Hit
    at: int

    def __str__(self) -> str:
        return f"{self.hit.value}@{self.at}"


@dataclass(frozen=True, slots=True)
class Case:
    """One run of the world."""

    configuration: str
    strikes: tuple[Strike, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.configuration}:{'+'.join(map(str, self.strikes))}"

    def then(self, hit: Hit, at: int) -> Case:
        return Case(self.configuration, (*self.strikes, Strike(hit, at)))


def parse_case(key: str) -> Case:
    """The case that `key` names; ValueError for another text."""
    configuration, _, rest = key.partition(":")
    words = [word.partition("@") for word in rest.split("+") if word]
    return Case(configuration, tuple(Strike(Hit(hit), int(at)) for hit, _, at in words))
