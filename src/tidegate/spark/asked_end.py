"""What has been asked of a started job about its end."""

from __future__ import annotations

import threading

from tidegate.operate.endings import EndMode


class AskedEnd:
    """How a job is to end, and how long it may wait for sinks then. Any thread asks; nothing is ever taken back."""

    def __init__(self, timeout_seconds: float, *, goes_on_draining: bool) -> None:
        """`goes_on_draining`: an earlier start was asked to drain the job, so this one does nothing else."""
        self.ending = EndMode.DRAIN if goes_on_draining else EndMode.NONE
        self.of_this_start = False
        """Whether this start was asked to end; what an earlier one was asked goes on, and is nobody's request here."""
        self.timeout_seconds = timeout_seconds
        self.lock = threading.RLock()  # a signal may ask within a question
        self._asked = threading.Event()
        if goes_on_draining:
            self._asked.set()

    def ask(self, ending: EndMode, timeout_seconds: float) -> bool:
        """Whether this start was asked before. Of several endings the strongest counts, and the shortest time."""
        with self.lock:
            before, self.of_this_start = self.of_this_start, True
            self.ending = max(self.ending, ending, key=list(EndMode).index)
            self.timeout_seconds = min(self.timeout_seconds, timeout_seconds) if before else timeout_seconds
            self._asked.set()
            return before

    def is_asked(self) -> bool:
        """Whether the job is to end, be it by what an earlier start was asked."""
        return self._asked.is_set()

    def await_asked(self, timeout_seconds: float) -> bool:
        """The same, waited for."""
        return self._asked.wait(timeout_seconds)
