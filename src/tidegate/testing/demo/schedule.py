"""The plan of the kills: for each kill a phase, a failpoint and an epoch, chosen by a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise


class Phase(Enum):
    """The phases of an epoch. The durable records of the protocol separate them."""

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
    """One SIGKILL: the driver is killed when a query reaches the failpoint `point` in this epoch.

    `phase`: the phase of the epoch at that failpoint. `both`: True: kill when both queries have reached the failpoint;
    False: as soon as one query has. `jvm_too`: True: kill the JVM as well; False: only the driver's Python process, so
    that the JVM runs on for a while.
    """

    phase: Phase
    point: str
    epoch: int
    both: bool
    jvm_too: bool


def plan_kills(seed: int, crashes: int, batches: int) -> list[Kill]:
    """A plan of `crashes` kills in different epochs, in order.

    One batch counts as one epoch. No kill is planned for the first and the last epoch.
    """
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
    """A phase for each kill.

    Five or more kills include every phase. Fewer always include C, where plain PySpark repeats rows.
    """
    others = [phase for phase in Phase if phase is not Phase.C]
    chosen = [Phase.C, *chance.sample(others, k=len(others)), *chance.choices(list(Phase), k=crashes)][:crashes]
    return chance.sample(chosen, k=crashes)


def _epochs(chance: random.Random, crashes: int, batches: int) -> list[int]:
    """An epoch for each kill: the epochs are divided into `crashes` equal ranges, and one of each range is chosen."""
    edges = [1 + (batches - 2) * part // max(crashes, 1) for part in range(crashes + 1)]
    return [chance.randrange(start, end) for start, end in pairwise(edges)]
