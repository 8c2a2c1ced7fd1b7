"""How many rows an epoch may have, by how long the epochs before it took."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

_AIM = 0.9
_GROWTH = 4.0
_UNLIKE = 2.0
_KEPT = 0.99
_SECONDS_AT_LEAST = 0.001  # a file system's clock may be coarse
_ROWS_PER_SECOND_AT_FIRST = 50_000
ROWS_AT_LEAST = 100


@dataclass(frozen=True, slots=True)
class Epoch:
    """How many rows an epoch had, and how long it took: from when its end was known until Spark was through with it."""

    rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Pace:
    """How many rows an epoch may have so that it ends within the interval.

    An epoch with all the rows it may have, or one that took longer than the interval, sets the rows of the next one to
    what would have taken most of the interval. As part of an epoch's time does not depend on its rows, that never asks
    for too much: the limit nears what fits from below. That part is `fixed_seconds`. The first epoch after a start
    tells nothing, as all was cold: the second may have as many rows, which are few. Unless it took longer than
    `timeout_seconds`, the time after which an epoch is cut off: that is more than the cold.

    Where the fixed part alone takes more than half of the interval, no good limit makes an epoch fit: rows may have as
    much time again. Otherwise a source would fall behind for the sake of an interval that it cannot keep.
    """

    interval_seconds: float
    rows: int
    fixed_seconds: float = 0.0
    unlike: Epoch | None = None
    is_cold: bool = False
    timeout_seconds: float = math.inf

    def after(self, epoch: Epoch) -> Pace:
        """The pace after an epoch with rows."""
        if self.is_cold:
            warm = replace(self, is_cold=False)
            slow = epoch.seconds > self.timeout_seconds
            return replace(warm, rows=min(self.rows, warm.after(epoch).rows)) if slow else warm
        learnt = self._learnt(epoch)
        fitting = max(self.interval_seconds, 2 * learnt.fixed_seconds)
        if epoch.rows < self.rows and epoch.seconds <= fitting:
            return learnt
        wanted = epoch.rows * fitting * _AIM / max(epoch.seconds, _SECONDS_AT_LEAST)
        return replace(learnt, rows=max(int(min(wanted, epoch.rows * _GROWTH)), ROWS_AT_LEAST))

    def _learnt(self, epoch: Epoch) -> Pace:
        """With what an epoch without rows would take: by the line through this epoch and the last one unlike it.

        Half of it is what was known, as both vary. No epoch takes less than that. Where all epochs are alike it is
        forgotten bit by bit: was it more than is true, rows become fewer, until two epochs differ and tell again.
        """
        unlike = self.unlike
        if epoch.rows <= ROWS_AT_LEAST or unlike is None:
            fixed = epoch.seconds if epoch.rows <= ROWS_AT_LEAST else self.fixed_seconds
            return replace(self, fixed_seconds=fixed, unlike=epoch)
        if max(epoch.rows, unlike.rows) < _UNLIKE * min(epoch.rows, unlike.rows):
            return replace(self, fixed_seconds=min(self.fixed_seconds * _KEPT, epoch.seconds))
        slope = (epoch.seconds - unlike.seconds) / (epoch.rows - unlike.rows)
        found = min(max(0.0, epoch.seconds - slope * epoch.rows), epoch.seconds, unlike.seconds)
        return replace(self, fixed_seconds=min((self.fixed_seconds + found) / 2, epoch.seconds), unlike=epoch)

    @staticmethod
    def first(interval_seconds: float, timeout_seconds: float = math.inf) -> Pace | None:
        """Before anything is known; None without an interval."""
        if interval_seconds <= 0:
            return None
        rows = int(min(interval_seconds, 1.0) * _ROWS_PER_SECOND_AT_FIRST)
        return Pace(interval_seconds, max(rows, ROWS_AT_LEAST), is_cold=True, timeout_seconds=timeout_seconds)
