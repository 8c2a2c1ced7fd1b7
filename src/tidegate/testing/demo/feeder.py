"""Input that keeps arriving, as the demo lets it in."""

from __future__ import annotations

import time

from tidegate.testing.checker import Batches
from tidegate.testing.demo.ends import Ends

_PAUSE_SECONDS = 0.02


class Feeder:
    """Lets the batches arrive one after the other."""

    def __init__(self, ends: Ends, batches: Batches) -> None:
        self.fed = 0
        self._ends = ends
        self._batches = batches
        self._next_at = 0.0

    def feed(self, up_to: int) -> None:
        """Let the next batch in, unless `up_to` batches are there already or the last one has only just come."""
        if self.fed >= min(up_to, len(self._batches)) or time.monotonic() < self._next_at:
            return
        self._ends.put(self._batches[self.fed])
        self.fed += 1
        self._next_at = time.monotonic() + _PAUSE_SECONDS
