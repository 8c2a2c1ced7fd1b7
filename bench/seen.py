"""When the epochs of a query began and when their rows could be read."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from pyspark.sql import DataFrame

from tidegate.core.happenings import EpochDone

_BOUND_SECONDS = 60.0


@dataclass(slots=True)
class Seen:
    """By epoch, in seconds since 1970: when `offsets/N` was written (the file's own time) and when its rows showed.

    `wanted` epochs are waited for, and one more: an epoch ends where the next one begins.
    """

    offsets: Path
    wanted: int
    begun: dict[int, float] = field(default_factory=dict[int, float])
    visible: dict[int, float] = field(default_factory=dict[int, float])
    _enough: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def of_job(cls, checkpoints: Path, wanted: int) -> Seen:
        """For the query `query` of the job `bench`."""
        return cls(checkpoints / "bench" / "queries" / "query" / "g1" / "spark" / "offsets", wanted)

    @classmethod
    def of_logs(cls, offsets: Path, commits: Path, wanted: int) -> Seen:
        """Of a query of plain Spark that has ended, whose sink has flushed an epoch when its commits entry is there."""
        epochs = range(wanted + 1)
        begun = {epoch: _written(offsets / str(epoch)) for epoch in epochs if (offsets / str(epoch)).exists()}
        visible = {epoch: _written(commits / str(epoch)) for epoch in epochs if (commits / str(epoch)).exists()}
        return cls(offsets, wanted, begun, visible)

    def note(self, epoch: int) -> None:
        """The rows of `epoch` can be read now."""
        self.visible[epoch] = time.time()
        self.begun[epoch] = _written(self.offsets / str(epoch))
        if epoch >= self.wanted:
            self._enough.set()

    def noting(self, write: Callable[[DataFrame, int], None]) -> Callable[[DataFrame, int], None]:
        """`write` for `foreachBatch`, noted."""

        def written(rows: DataFrame, epoch: int) -> None:
            write(rows, epoch)
            self.note(epoch)

        return written

    def wait(self, bound_seconds: float = _BOUND_SECONDS) -> None:
        """Wait for all epochs; there is a bound, and a second more for each."""
        if not self._enough.wait(bound_seconds + self.wanted):
            raise TimeoutError(f"only {len(self.visible)} of {self.wanted} epochs in time")

    def period_ms(self, first: int, behind: int | None = None) -> float:
        """The median time from one `offsets/N` to the next, of the epochs from `first` on, before `behind`."""
        epochs = range(first, self.wanted if behind is None else behind)
        return round(median(self.begun[n + 1] - self.begun[n] for n in epochs) * 1000, 1)

    def visible_ms(self, first: int) -> float:
        """The median time from `offsets/N` until the rows could be read, from epoch `first` on."""
        return round(median(self.visible[n] - self.begun[n] for n in range(first, self.wanted)) * 1000, 1)

    def seconds(self, last: int) -> float:
        """From `offsets/0` until the rows of epoch `last` could be read."""
        return self.visible[last] - self.begun[0]


def _written(file: Path) -> float:
    return file.stat().st_mtime_ns / 1e9


@contextmanager
def told(seen: Seen) -> Generator[None]:
    """Note each epoch that a job reports as done: its rows became visible just before."""
    logger, handler = logging.getLogger("tidegate"), _Handler(seen)
    before = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


class _Handler(logging.Handler):
    def __init__(self, seen: Seen) -> None:
        super().__init__(logging.INFO)
        self._seen = seen

    def emit(self, record: logging.LogRecord) -> None:
        match record.args:
            case (EpochDone(epoch),):
                self._seen.note(epoch)
            case _:
                pass
