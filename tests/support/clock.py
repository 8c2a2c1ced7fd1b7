"""A clock that only moves when somebody sleeps."""

from __future__ import annotations

import threading


class SimulatedClock:
    """Seconds from 0. Several simulated processes may share it: their sleeps add up."""

    def __init__(self) -> None:
        self._now = 0.0
        self._lock = threading.Lock()

    def now(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self._now += seconds
