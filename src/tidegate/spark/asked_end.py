"""The requested end of a started job."""

from __future__ import annotations

import math
import threading
import time

from tidegate.operate.endings import AskedOf, EndMode


class AskedEnd:
    """How a job is to end, and how long it may then wait for sinks. Called from any thread. A request is never
    withdrawn.
    """

    def __init__(self, timeout_seconds: float, *, goes_on_draining: bool) -> None:
        """`timeout_seconds`: how long an end may take. `goes_on_draining`: an earlier start received the request to
        drain the job, so this start only completes that drain.
        """
        self.ending = EndMode.DRAIN if goes_on_draining else EndMode.NONE
        self.asked_of = AskedOf.ANOTHER
        """THIS_START after a request to this start. A drain that an earlier start began does not change it."""
        self.timeout_seconds = timeout_seconds
        self.deadline = math.inf
        """When the time of the end is over, by the monotonic clock. It counts from the request."""
        self.lock = threading.RLock()  # a signal handler may call while this thread is inside a call
        self._asked = threading.Event()
        if goes_on_draining:
            self._asked.set()

    def ask(self, ending: EndMode, timeout_seconds: float) -> bool:
        """True if this start already had a request. Of several kinds of end the strongest counts, and the shortest
        time.
        """
        with self.lock:
            before, self.asked_of = self.asked_of is AskedOf.THIS_START, AskedOf.THIS_START
            self.ending = max(self.ending, ending, key=list(EndMode).index)
            self.timeout_seconds = min(self.timeout_seconds, timeout_seconds) if before else timeout_seconds
            self.deadline = min(self.deadline, time.monotonic() + timeout_seconds)
            self._asked.set()
            return before

    def is_asked(self) -> bool:
        """True if the job is to end, also if an earlier start received the request."""
        return self._asked.is_set()

    def await_asked(self, timeout_seconds: float) -> bool:
        """Waits until the job is to end."""
        return self._asked.wait(timeout_seconds)
