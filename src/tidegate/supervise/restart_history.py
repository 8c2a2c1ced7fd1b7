"""Counts the restarts of one job, and computes when its next start may be."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tidegate.core.errors import Code
from tidegate.supervise.cures import can_restart
from tidegate.supervise.restart import Restarted, RestartPolicy


class RestartHistory:
    """Asks the table of cures and the restart strategy for each failure, and keeps what they need to know.

    All times are of the monotonic clock, in seconds.
    """

    def __init__(self, strategy: RestartPolicy) -> None:
        self.strategy = strategy
        self.has_run = False
        """True from the first driver on whose queries have run."""
        self.next_start = 0.0
        """The earliest time of the next start."""
        self._past: list[Restarted] = []
        self._taken_since: float | None = None

    @property
    def count(self) -> int:
        """The number of restarts so far."""
        return len(self._past)

    def pause_of_failed(self, codes: Sequence[Code], at: float) -> float | None:
        """The pause after a failure at the time `at`. None if there is no restart."""
        if not self._can_restart(codes, at):
            return None
        pause = self.strategy.pause_after(self._past, at, random.random())
        if pause is not None:
            self._past.append(Restarted(at=at, pause=pause))
            self.next_start = at + pause
        return pause

    def pause_of_tolerated(self, codes: Sequence[Code], at: float) -> float | None:
        """The pause after a tolerated failed epoch: none of the strategy's restarts is used. None if there is no
        restart."""
        if not self._can_restart(codes, at):
            return None
        self.next_start = at
        return 0.0

    def _can_restart(self, codes: Sequence[Code], at: float) -> bool:
        return can_restart(codes, has_run=self.has_run, seconds_taken=self._seconds_taken(codes, at))

    def _seconds_taken(self, codes: Sequence[Code], at: float) -> float:
        """Seconds since the first start in a row that found another driver of the job; 0 if this one did not."""
        if Code.DRIVER_ALIVE not in codes:
            self._taken_since = None
            return 0.0
        self._taken_since = at if self._taken_since is None else self._taken_since
        return at - self._taken_since
