"""What a benchmark gives: figures, each with the samples of its rounds and the goal it is held against."""

from __future__ import annotations

from enum import Enum
from statistics import median

import msgspec


class Better(Enum):
    """Which side of its goal a figure should be on."""

    LOWER = "<="
    HIGHER = ">="


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One number. `samples` holds, by side and quantity, one number a round: what the figure was made of."""

    name: str
    what: str
    value: float
    unit: str
    better: Better
    goal: float | None
    samples: dict[str, list[float]] = {}
    load: tuple[float, float] = (0.0, 0.0)
    """The machine's load average (one minute) before and after: a figure from a busy machine says little."""

    @property
    def is_met(self) -> bool | None:
        """Whether the goal is met; None without a goal."""
        if self.goal is None:
            return None
        return self.value <= self.goal if self.better is Better.LOWER else self.value >= self.goal

    def medians(self) -> dict[str, float]:
        """The median over the rounds, by side and quantity."""
        return {name: round(median(values), 3) for name, values in self.samples.items()}


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where it was measured: what matters for the figures, and nothing that names the machine."""

    system: str
    cpu: str
    cores: int
    memory_gib: float
    file_system: str
    versions: dict[str, str]


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """One file below `bench/results`."""

    measured: str
    quick: bool
    rounds: int
    machine: Machine
    figures: tuple[Figure, ...]
