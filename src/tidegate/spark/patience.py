"""How long a run waits for sinks that are not ready, after its end was requested."""

from __future__ import annotations

import math
import time


class Patience:
    """No limit until one is set. Of several limits the first counts. Every call holds the run's lock."""

    def __init__(self) -> None:
        self._until = math.inf
        self._seconds = math.inf
        self._waits_since = math.inf

    def end_in(self, seconds: float) -> None:
        """Set a limit from now on, independent of the work of the run."""
        self._until = min(self._until, time.monotonic() + seconds)

    def allow(self, seconds: float) -> None:
        """Set a limit for the wait for sinks alone: the time to read and compute before does not count."""
        if self._waits_since < math.inf:
            self.end_in(seconds)
        else:
            self._seconds = min(self._seconds, seconds)

    def waits(self) -> None:
        """Called when a sink is not ready. The wait is measured from the first call since an epoch was done."""
        self._waits_since = min(self._waits_since, time.monotonic())

    def has_served(self) -> None:
        """An epoch is done: every sink has taken it."""
        self._waits_since = math.inf

    @property
    def ends_at(self) -> float:
        """The end on the monotonic clock; infinity if there is none."""
        return min(self._until, self._waits_since + self._seconds)

    def is_over(self) -> bool:
        return time.monotonic() >= self.ends_at
