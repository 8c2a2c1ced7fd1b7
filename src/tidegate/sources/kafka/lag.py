"""Commits the offsets of a Kafka source to a consumer group, so that ordinary tools show its lag. Never read back."""

from __future__ import annotations

import logging
import threading
from contextvars import copy_context

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tidegate.core.errors import TidegateError
from tidegate.kafka.clients import Clients
from tidegate.sources.kafka.offsets import Offsets

_LOG = logging.getLogger("tidegate")
_CLOSE_SECONDS = 5.0
_ANSWER_MS = 5000


class LagGroup:
    """Commits the newest offsets in a thread of its own. A failure is logged as a warning and delays nothing."""

    def __init__(self, clients: Clients, group: str) -> None:
        self._clients = clients
        self._group = group
        self._newest: Offsets | None = None
        self._closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=copy_context().run, args=(self._work,), name="tidegate-lag", daemon=True)
        self._thread.start()

    def tell(self, offsets: Offsets) -> None:
        """Commit these offsets soon. Returns at once. Older offsets that are not committed yet are skipped."""
        with self._changed:
            self._newest = offsets
            self._changed.notify_all()

    def close(self) -> None:
        """Commit the newest offsets, for at most 5 seconds, and stop."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(_CLOSE_SECONDS)

    def _work(self) -> None:
        consumer: Consumer | None = None
        try:
            while (offsets := self._await()) is not None:
                try:
                    consumer = consumer or self._open()
                    self._commit(consumer, offsets)
                except (KafkaException, TidegateError) as error:
                    text = "group %s, for lag tools only: not committed (%s)"
                    _LOG.warning(text, self._group, error, extra={"event": "LagNotCommitted"})
        finally:
            if consumer is not None:
                consumer.close()

    def _await(self) -> Offsets | None:
        """Wait for the next offsets to commit; None after `close`, when all are committed."""
        with self._changed:
            self._changed.wait_for(lambda: self._newest is not None or self._closing)
            newest, self._newest = self._newest, None
            return newest

    def _open(self) -> Consumer:
        own = {"group_id": self._group, "enable_auto_commit": False, "socket_timeout_ms": _ANSWER_MS}
        return Consumer(self._clients.settings(**own))

    def _commit(self, consumer: Consumer, offsets: Offsets) -> None:
        places = [TopicPartition(topic, number, offset) for (topic, number), offset in offsets.next.items()]
        consumer.commit(offsets=places, asynchronous=False)
