"""The figures of a job's queries: how far each has come, and how long its epochs take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median

from tidegate.spark.epoch_times import EpochClock, EpochTimes

_FIGURES_KEPT = 1000


@dataclass(slots=True)
class Figures:
    """The figures of a query in this process, only for status and progress."""

    epoch: int = -1
    finished: int = -1
    epochs: int = 0
    rows: int = 0
    shown_again: int = 0
    given_up: int = 0
    dead_letters: int = 0
    aborted: int = 0
    redone: int = 0
    epoch_ms: list[float] = field(default_factory=list[float])
    commit_delay_ms: list[float] = field(default_factory=list[float])
    prepared_seconds: float | None = None
    """How long the newest epoch has taken that was prepared in this process, since Spark called with it."""
    clock: EpochClock = field(default_factory=EpochClock)
    """The times of the epochs that are not done."""
    newest: EpochTimes | None = None
    """The times of the newest done epoch that began in this process."""

    def is_prepared(self, epoch: int) -> None:
        """Keep how long an epoch has taken until it was prepared."""
        if (seconds := self.clock.seconds_so_far(epoch)) is not None:
            self.prepared_seconds = seconds

    def newest_epoch_seconds(self) -> float | None:
        """`prepared_seconds`, for the sources."""
        return self.prepared_seconds

    def is_done(self, epoch: int) -> None:
        """Keep how long an epoch has taken that began in this process."""
        took = self.clock.done(epoch)
        if took is None:
            return
        self.newest = took
        for figures, taken in ((self.epoch_ms, took.total_ms), (self.commit_delay_ms, took.commit_delay_ms)):
            if taken is not None:
                figures.append(taken)
                del figures[:-_FIGURES_KEPT]

    def medians(self) -> tuple[float | None, float | None]:
        """Median time from Spark's call with an epoch, and from its entry in `commits`, to *done*, in milliseconds."""
        return _median(self.epoch_ms), _median(self.commit_delay_ms)


class JobFigures:
    """The figures of every query of a job. They outlive the runs of a query."""

    def __init__(self, uids: Iterable[str]) -> None:
        self.of = {uid: Figures() for uid in uids}

    def under_way(self) -> dict[str, int]:
        """For each query, the current epoch, or the newest done one if there is none."""
        return {uid: max(each.epoch, each.finished, 0) for uid, each in self.of.items()}

    def has_done(self, epochs: Mapping[str, int]) -> bool:
        """True if all these epochs, by query, are done."""
        return all(self.of[uid].finished >= epoch for uid, epoch in epochs.items())

    def finished(self) -> dict[str, int]:
        """For each query, the newest done epoch; -1 if there is none."""
        return {uid: each.finished for uid, each in self.of.items()}

    def newest_times(self, uid: str) -> EpochTimes | None:
        """The times of the newest done epoch of a query that began in this process."""
        return self.of[uid].newest


def _median(values: list[float]) -> float | None:
    return round(median(values), 1) if values else None
