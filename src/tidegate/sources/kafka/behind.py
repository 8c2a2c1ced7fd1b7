"""Measures the lag of a Kafka source: the number of records that are not done yet. Shown by `tidegate info`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context

from tidegate.core.errors import TidegateError
from tidegate.sources.kafka.offsets import OffsetOf
from tidegate.sources.kafka.source import BrokerLooks
from tidegate.sources.kafka.topics import PartitionEnd

LOOK_SECONDS = 3.0
_CLOSE_SECONDS = 1.0


class LagGauge:
    """Asks the brokers every few seconds in a thread of its own, so that slow brokers do not delay the job."""

    def __init__(self, topics: Callable[[], BrokerLooks], look_seconds: float = LOOK_SECONDS) -> None:
        """`topics`: opens the client that asks the brokers; called in the gauge's thread."""
        self._topics = topics
        self._look_seconds = look_seconds
        self._done: OffsetOf = {}
        self._ends: OffsetOf | None = None
        self._told = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._work,), name="tidegate-behind", daemon=True
        )
        self._thread.start()

    def tell(self, done: OffsetOf) -> None:
        """Set the end offsets of the newest done epoch. Returns at once."""
        self._done = done
        self._told.set()

    def records(self) -> int | None:
        """The lag as a difference of offsets, so it includes transaction markers; None if it is not known."""
        done, ends = self._done, self._ends
        if ends is None or not done:
            return None
        return sum(max(0, ends.get(each, offset) - offset) for each, offset in done.items())

    def close(self) -> None:
        """Stop the thread. Waits at most a second for a request that is under way."""
        self._closing.set()
        self._told.set()
        self._thread.join(_CLOSE_SECONDS)

    def _work(self) -> None:
        self._told.wait()
        topics: BrokerLooks | None = None
        while not self._closing.is_set():
            try:
                topics = topics or self._topics()
                self._ends = topics.at(frozenset(self._done), PartitionEnd.LATEST)
            except TidegateError:  # the source itself says that the brokers do not answer
                self._ends = None
            self._closing.wait(self._look_seconds)
