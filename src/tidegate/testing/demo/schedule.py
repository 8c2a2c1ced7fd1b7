"""When the driver is killed: each phase of an epoch, at a place and in an epoch that a seed chooses."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise


class Phase(Enum):
    """The phases of an epoch between which the protocol's durable records stand."""

    A = "before pre-commit"
    B = "pre-commit .. prepared"
    C = "prepared .. commits/N"
    D = "commits/N .. decided"
    E = "decided .. done"


POINTS: dict[Phase, tuple[str, ...]] = {
    Phase.A: ("compute.before", "task.open", "task.write", "task.prepare"),
    Phase.B: ("task.prepared", "compute.after", "sync.before", "sync.after", "prepared.before"),
    Phase.C: ("prepared.after",),
    Phase.D: ("commits.seen.after", "decision.before"),
    Phase.E: ("decision.after", "commit.before", "commit.after", "done.before"),
}
"""The failpoints at which a driver is in each phase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """One SIGKILL: in which phase of which epoch, and at which failpoint.

    `both`: when both queries are there, not as soon as one is. Without `jvm_too` only the driver's Python process is
    killed: its JVM lives on for a while by itself.
    """

    phase: Phase
    point: str
    epoch: int
    both: bool
    jvm_too: bool


def plan_kills(seed: int, crashes: int, batches: int) -> list[Kill]:
    """`crashes` kills in different epochs, in their order. One batch is one epoch; the first and last are spared."""
    chance = random.Random(seed)
    phases, epochs = _phases(chance, crashes), _epochs(chance, crashes, batches)
    return [
        Kill(
            phase=phase,
            point=chance.choice(POINTS[phase]),
            epoch=epoch,
            both=chance.random() < 0.5,
            jvm_too=chance.random() < 0.5,
        )
        for phase, epoch in zip(phases, epochs, strict=True)
    ]


def _phases(chance: random.Random, crashes: int) -> list[Phase]:
    """Every phase as soon as there are five kills; among fewer always C, where a plain sink repeats its rows."""
    others = [phase for phase in Phase if phase is not Phase.C]
    chosen = [Phase.C, *chance.sample(others, k=len(others)), *chance.choices(list(Phase), k=crashes)][:crashes]
    return chance.sample(chosen, k=crashes)


def _epochs(chance: random.Random, crashes: int, batches: int) -> list[int]:
    """One epoch out of each of `crashes` equal stretches."""
    edges = [1 + (batches - 2) * part // max(crashes, 1) for part in range(crashes + 1)]
    return [chance.randrange(start, end) for start, end in pairwise(edges)]
