"""The figures of a run of a query."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from statistics import median

from tidegate.storages.storage import RecordStat

_FIGURES_KEPT = 1000


@dataclass(slots=True)
class Figures:
    """The figures of a run, only for status and progress."""

    epoch: int = -1
    finished: int = -1
    epochs: int = 0
    rows: int = 0
    given_up: int = 0
    dead_letters: int = 0
    aborted: int = 0
    redone: int = 0
    epoch_ms: list[float] = field(default_factory=list[float])
    commit_delay_ms: list[float] = field(default_factory=list[float])

    def medians(self) -> tuple[float | None, float | None]:
        """Median time from `offsets/N`, and from `commits/N`, appearing to *done*, in milliseconds."""
        return _median(self.epoch_ms), _median(self.commit_delay_ms)


def keep_age(figures: list[float], seen: RecordStat | None) -> None:
    """Add the age of a record in milliseconds, if it is there."""
    if seen is None:
        return
    figures.append((time.time() - seen.written_at) * 1000)
    del figures[:-_FIGURES_KEPT]


def _median(values: list[float]) -> float | None:
    return round(median(values), 1) if values else None
