"""Limits the number of rows of an epoch, from the duration of earlier epochs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

_AIM = 0.9
_GROWTH = 4.0
_UNLIKE = 2.0
_KEPT = 0.99
_SECONDS_AT_LEAST = 0.001  # a file system's clock may be coarse
_ROWS_PER_SECOND_AT_FIRST = 50_000
_SECONDS_AT_FIRST = 2.0
ROWS_AT_LEAST = 100


@dataclass(frozen=True, slots=True)
class Epoch:
    """The number of rows of an epoch, and its duration: from when its end was known until Spark had finished it."""

    rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Pace:
    """The number of rows that an epoch may have, so that with a backlog it takes about `aim_seconds`.

    Without a backlog the limit has no effect: an epoch takes the rows that are there. So a query that keeps up has
    short epochs. One that is behind has long ones, whose fixed cost is small beside their rows.

    The limit changes after an epoch with the allowed number of rows, and after one that took longer than the aim. The
    new number is what such an epoch would do in nine tenths of the aim. A part of an epoch's time (`fixed_seconds`)
    does not depend on its rows, so this estimate is never too high, and the limit approaches the right value from
    below.

    The first epoch after a start is slower than later ones, because nothing is warmed up. So it may raise the limit,
    but not lower it. The exception: it took longer than `timeout_seconds`, after which an epoch is interrupted.

    If the fixed part alone takes more than half of the aim, rows may take as much time as the fixed part. Otherwise the
    source would fall behind, and still not reach the aim.
    """

    aim_seconds: float
    rows: int
    fixed_seconds: float = 0.0
    unlike: Epoch | None = None
    is_cold: bool = False
    timeout_seconds: float = math.inf

    def after(self, epoch: Epoch) -> Pace:
        """The pace after an epoch that had rows."""
        if self.is_cold:
            warm = replace(self, is_cold=False)
            bound = min if epoch.seconds > self.timeout_seconds else max
            return replace(warm, rows=bound(self.rows, warm.after(epoch).rows))
        learnt = self._learnt(epoch)
        fitting = max(self.aim_seconds, 2 * learnt.fixed_seconds)
        if epoch.rows < self.rows and epoch.seconds <= fitting:
            return learnt
        wanted = epoch.rows * fitting * _AIM / max(epoch.seconds, _SECONDS_AT_LEAST)
        return replace(learnt, rows=max(int(min(wanted, epoch.rows * _GROWTH)), ROWS_AT_LEAST))

    def _learnt(self, epoch: Epoch) -> Pace:
        """The pace with a better estimate of `fixed_seconds`, the time of an epoch without rows.

        A line through this epoch and the last one with a clearly different number of rows gives a value; the estimate
        is the mean of it and the old one, and never longer than an epoch took. If all epochs have similar sizes, the
        estimate is lowered in small steps: if it was too high, epochs get fewer rows, until two sizes differ and give a
        new value.
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
    def first(aim_seconds: float, timeout_seconds: float = math.inf) -> Pace | None:
        """The pace before the first epoch; None if the aim is 0."""
        if aim_seconds <= 0:
            return None
        rows = int(min(aim_seconds, _SECONDS_AT_FIRST) * _ROWS_PER_SECOND_AT_FIRST)
        return Pace(aim_seconds, max(rows, ROWS_AT_LEAST), is_cold=True, timeout_seconds=timeout_seconds)
