"""Reads the beat of a job again and again, no more often than the job's storage likes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from tidegate.operate.beat import Beat, read_beat
from tidegate.operate.rhythm import rhythm_of
from tidegate.storages.schemes import Where


class BeatReader:
    """For one job. The beat that was read last counts until the next look is due (`Rhythm`). In one thread.

    `is_awaited`: whether a beat is one that the caller waits for; if not, the next look is due sooner. Each read raises
    STORAGE_UNUSABLE if the beat cannot be read; the next call then looks again.
    """

    def __init__(
        self,
        job_folder: Where,
        is_awaited: Callable[[Beat], bool] = lambda _: True,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = job_folder
        self._rhythm = rhythm_of(job_folder)
        self._is_awaited = is_awaited
        self._now = now
        self._known: Beat | None = None
        self._due = -math.inf

    def read(self) -> Beat | None:
        """The newest beat that is known; None if there is none."""
        if self._now() >= self._due:
            self.read_now()
        return self._known

    def read_now(self) -> Beat | None:
        """The newest beat; None if there is none."""
        self._known = read_beat(self._folder)
        is_it = self._known is not None and self._is_awaited(self._known)
        self._due = self._now() + (self._rhythm.watch if is_it else self._rhythm.request)
        return self._known
