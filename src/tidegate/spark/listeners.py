"""Delivers the events of a job to the user's own functions: `Job(..., listeners=[...])`.

Each listener has a thread and a bounded queue of its own. So no listener can disturb the job. A listener that raises is
logged once and receives the next event. A slow listener loses events, which are counted.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from tidegate.core.effects import Happening
from tidegate.spark.companions import Companion

_LOG = logging.getLogger("tidegate")

EVENTS_WAITING_AT_MOST = 1_000
"""Capacity of a listener's queue. Further events are dropped."""

_END_SECONDS = 2.0
"""Seconds that the end of a job waits for a listener to receive its last events."""


@dataclass(frozen=True, slots=True)
class JobEvent:
    """An event in a query of a job.

    `run`: the run of the query (0: recovery has not opened one yet). `at`: the time, in seconds since 1970.
    `happening`: one of the types of `tidegate.happenings`.
    """

    job: str
    query: str
    run: int
    at: float
    happening: Happening


Listener: TypeAlias = Callable[[JobEvent], object]
"""Called with one event at a time, in the order of the events, from a thread of its own."""


class Delivery(Companion):
    """Serves one listener. `happened` never waits."""

    def __init__(self, job: str, listener: Listener, waiting_at_most: int = EVENTS_WAITING_AT_MOST) -> None:
        self._job = job
        self._listener = listener
        self._name = getattr(listener, "__qualname__", type(listener).__qualname__)
        self._events: queue.Queue[JobEvent] = queue.Queue(waiting_at_most)
        self._over = threading.Event()
        self._complained = False
        self._lock = threading.Lock()
        self._dropped = 0
        self._thread = threading.Thread(target=self._deliver, name=f"tidegate-listener-{self._name}", daemon=True)

    @property
    def dropped(self) -> int:
        """The number of events that the listener has not received."""
        return self._dropped

    def happened(self, query: str, run: int, happening: Happening) -> None:
        event = JobEvent(self._job, query, run, time.time(), happening)
        with self._lock:
            if self._over.is_set():
                return
            if not self._thread.is_alive():
                self._thread.start()
            try:
                self._events.put_nowait(event)
            except queue.Full:
                self._dropped += 1
                first = self._dropped == 1
            else:
                return
        if first:
            _LOG.warning(
                "job %s: listener %s is too slow: %d events wait, and further ones are dropped until it has caught up",
                *(self._job, self._name, self._events.maxsize),
            )

    def ended(self, error: BaseException | None) -> None:
        with self._lock:
            self._over.set()
        if self._thread.is_alive():
            self._thread.join(_END_SECONDS)
        unheard = self._dropped + self._events.qsize()
        if unheard:
            _LOG.warning("job %s: listener %s did not receive %d events", self._job, self._name, unheard)

    def _deliver(self) -> None:
        while True:
            try:
                event = self._events.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                if self._over.is_set():
                    return
                continue
            try:
                self._listener(event)
            except BaseException as error:  # noqa: BLE001 (errors of a listener do not end the job)
                self._complain(error)

    def _complain(self, error: BaseException) -> None:
        if not self._complained:
            self._complained = True
            _LOG.warning(
                "job %s continues, but its listener %s has failed (later failures are not logged): %s: %s",
                *(self._job, self._name, type(error).__name__, error),
            )


_LOOK_SECONDS = 0.1
