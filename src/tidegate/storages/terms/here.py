"""What one process knows of leases of terms: its clock, the terms that it holds, and the beats that it has seen."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone

from tidegate.storages.lease import Holder
from tidegate.storages.terms.decisions import Look, Sighting


def _now() -> float:
    """Seconds that never go back. Where the system can tell, they also count while the machine is suspended: a holder
    that was suspended must know that it is late.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


@dataclass(slots=True)
class Here:
    """One process. Tests make several of them in one process, with one clock."""

    now: Callable[[], float] = _now
    sleep: Callable[[float], None] = time.sleep
    process: Callable[[], int] = os.getpid
    held: dict[str, Callable[[], bool]] = field(default_factory=dict[str, Callable[[], bool]])
    """By the token of each term that was taken here and not released: whether this process still holds it."""
    _watched: dict[str, Sighting] = field(default_factory=dict[str, Sighting])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def watch(self, where: str, look: Look, returned_at: float) -> Sighting:
        """Add a look at the lease at this place to all earlier ones of this process. So a process that looks again and
        again sees that a holder has died.
        """
        with self._lock:
            before = self._watched.get(where)
            after = Sighting(look, returned_at) if before is None else before.then(look, returned_at)
            self._watched[where] = after
            return after

    def holds(self, token: str) -> bool:
        """True if this process holds the term with this token."""
        holds = self.held.get(token)
        return holds is not None and holds()

    def holder(self, job: str) -> Holder:
        """This process, as the record of a term names it."""
        since = datetime.now(timezone.utc).isoformat(timespec="seconds")
        return Holder(job=job, host=socket.gethostname(), process=self.process(), since=since)


HERE = Here()
"""This process."""
