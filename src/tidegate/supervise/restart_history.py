"""Counts the restarts of one job, and computes when its next start may be."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec

from tidegate.core.errors import Code
from tidegate.supervise.cures import can_restart
from tidegate.supervise.restart import Restarted, RestartPolicy


class RestartsSoFar(msgspec.Struct, frozen=True, kw_only=True):
    """What a history knows, so that another process goes on with it. Times are seconds of one clock."""

    past: tuple[Restarted, ...] = ()
    has_run: bool = False
    """True from the first driver on whose queries have run."""
    next_start: float = 0.0
    """The earliest time of the next start."""
    taken_since: float | None = None
    """Since when each start has found another driver of the job."""


class RestartHistory:
    """Asks the table of cures and the restart strategy for each failure, and keeps what they need to know.

    All times are of one clock, in seconds.
    """

    def __init__(self, strategy: RestartPolicy, so_far: RestartsSoFar | None = None) -> None:
        self.strategy = strategy
        self.so_far = so_far or RestartsSoFar()

    @property
    def count(self) -> int:
        """The number of restarts so far."""
        return len(self.so_far.past)

    @property
    def next_start(self) -> float:
        """The earliest time of the next start."""
        return self.so_far.next_start

    def has_run(self) -> None:
        """The queries of a driver run."""
        self._know(has_run=True)

    def pause_of_failed(self, codes: Sequence[Code], at: float) -> float | None:
        """The pause after a failure at the time `at`. None if there is no restart."""
        if not self._can_restart(codes, at):
            return None
        pause = self.strategy.pause_after(self.so_far.past, at, random.random())
        if pause is not None:
            self._know(past=(*self.so_far.past, Restarted(at=at, pause=pause)), next_start=at + pause)
        return pause

    def pause_of_tolerated(self, codes: Sequence[Code], at: float) -> float | None:
        """The pause after a tolerated failed epoch: none of the strategy's restarts is used. None if there is no
        restart."""
        if not self._can_restart(codes, at):
            return None
        self._know(next_start=at)
        return 0.0

    def _can_restart(self, codes: Sequence[Code], at: float) -> bool:
        return can_restart(codes, has_run=self.so_far.has_run, seconds_taken=self._seconds_taken(codes, at))

    def _seconds_taken(self, codes: Sequence[Code], at: float) -> float:
        """Seconds since the first start in a row that found another driver of the job; 0 if this one did not."""
        if Code.DRIVER_ALIVE not in codes:
            self._know(taken_since=None)
            return 0.0
        since = at if self.so_far.taken_since is None else self.so_far.taken_since
        self._know(taken_since=since)
        return at - since

    def _know(self, **changed: object) -> None:
        self.so_far = msgspec.structs.replace(self.so_far, **changed)
