"""How long a run waits for sinks that are not ready, once somebody wants it to end."""

from __future__ import annotations

import math
import time


class Patience:
    """Without an end until one is set. Of several ends the first counts. Every call holds the run's lock."""

    def __init__(self) -> None:
        self._until = math.inf
        self._seconds = math.inf
        self._waits_since = math.inf

    def end_in(self, seconds: float) -> None:
        """It ends so soon from now on, whatever the run does until then."""
        self._until = min(self._until, time.monotonic() + seconds)

    def allow(self, seconds: float) -> None:
        """It ends when sinks have been waited for so long: what is read and computed before does not count."""
        if self._waits_since < math.inf:
            self.end_in(seconds)
        else:
            self._seconds = min(self._seconds, seconds)

    def waits(self) -> None:
        """A sink is not ready. The first time counts, until an epoch is done."""
        self._waits_since = min(self._waits_since, time.monotonic())

    def has_served(self) -> None:
        """An epoch is done: every sink has taken it."""
        self._waits_since = math.inf

    @property
    def ends_at(self) -> float:
        """On the monotonic clock; infinity where it has no end."""
        return min(self._until, self._waits_since + self._seconds)

    def is_over(self) -> bool:
        return time.monotonic() >= self.ends_at
