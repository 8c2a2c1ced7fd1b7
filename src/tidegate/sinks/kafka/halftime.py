"""Reports when half of the time has passed after which the brokers abort an open transaction."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class HalfTime:
    """A timer for one epoch at a time, on a driver. After half of the timeout it calls `tell` once, in a thread of its
    own.

    The copy that goes to the tasks is a different object without a timer.
    """

    def __init__(self) -> None:
        self._due: tuple[float, Callable[[], None]] | None = None
        self._waits = False
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[HalfTime], tuple[()]]:
        return HalfTime, ()

    def begin(self, seconds: float, tell: Callable[[], None]) -> None:
        """An epoch begins. The timer of the epoch before it stops."""
        with self._lock:
            self._due = time.monotonic() + seconds, tell
            # Epochs are many, and most are short: one thread serves all epochs that begin while it waits.
            if not self._waits:
                self._waits = True
                threading.Thread(target=self._wait, name="tidegate-half-time", daemon=True).start()

    def end(self) -> None:
        """The epoch's transactions are ended."""
        with self._lock:
            self._due = None

    def _wait(self) -> None:
        while (seconds := self._left()) is not None:
            time.sleep(seconds)

    def _left(self) -> float | None:
        """Seconds to wait; None if the epoch has ended or was already reported."""
        with self._lock:
            now = time.monotonic()
            if self._due is not None and self._due[0] > now:
                return self._due[0] - now
            over, self._due, self._waits = self._due, None, False
        if over is not None:
            over[1]()
        return None
