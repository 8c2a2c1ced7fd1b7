"""The limits of a topic. Each writing process reads them, keeps them for seconds, and reads them again before it
refuses a row.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from tidegate.kafka.brokers import look_at, settings_of
from tidegate.kafka.clients import Clients
from tidegate.kafka.wire import Wire
from tidegate.sinks.kafka.producers import sending
from tidegate.sinks.kafka.wires import wire_of

_KEPT_SECONDS = 10.0
_FRESH_SECONDS = 1.0
_NOT_YET_SECONDS = (0.05, 0.15, 0.3)
"""Time in which a broker may not yet know a topic that another broker has just created."""
_AROUND_BYTES = 1024
"""More bytes than the client puts around the records of a batch."""
_ASKED = ("max.message.bytes", "cleanup.policy", "compression.type")


@dataclass(frozen=True, slots=True)
class TopicLimits:
    """The limits of one topic. None: unknown, so the broker decides when it receives the row.

    `most_bytes`: limit of a record batch as it is sent. `plain`: the broker decompresses a batch and also measures that
    size.
    """

    exists: bool = True
    partitions: int | None = None
    most_bytes: int | None = None
    plain: bool = False
    compacted: bool = False


class Limits:
    """The limits of the topics of a process, and of the client that it writes with."""

    def __init__(self, servers: str, wire: Callable[[], Wire], sending: Mapping[str, str]) -> None:
        """`sending`: how the client compresses and cuts batches, from `sending` of the producers."""
        self.servers = servers
        self.sending = sending
        self.client_most_bytes = int(sending["message.max.bytes"])
        self._wire = wire
        self._kept: dict[str, tuple[float, TopicLimits]] = {}

    def of(self, topic: str) -> TopicLimits:
        """The limits as read within the last seconds. Raises KafkaRefused."""
        return self._seen(topic, _KEPT_SECONDS)

    def fresh(self, topic: str) -> TopicLimits:
        """Ask for the topic's limits again, before a row is refused because of them. Raises KafkaRefused."""
        return self._seen(topic, _FRESH_SECONDS)

    def changed(self, topic: str) -> TopicLimits:
        """Read the limits again, because the broker has just refused a row that they allow. Raises KafkaRefused."""
        return self._seen(topic, 0.0)

    def _seen(self, topic: str, at_most_seconds: float) -> TopicLimits:
        now = time.monotonic()
        then, limits = self._kept.get(topic, (None, None))
        if then is None or limits is None or now - then > at_most_seconds:
            limits = _read(self._wire(), topic)
            self._kept[topic] = now, limits
        return limits

    def batches_fit(self, limits: TopicLimits) -> bool:
        """True if the client's limit for the size of a batch is small enough that the topic accepts each batch."""
        most = limits.most_bytes
        return most is None or most >= min(self.client_most_bytes, int(self.sending["batch.size"])) + _AROUND_BYTES


def limits_of(clients: Clients) -> Limits:
    """This process's limits, shared by all writers with the same connection to the cluster."""
    key = (os.getpid(), clients.servers, *sorted(clients.options.items()))
    if key not in _LIMITS:
        _LIMITS[key] = Limits(clients.servers, partial(wire_of, clients), sending(clients))
    return _LIMITS[key]


_LIMITS: dict[tuple[object, ...], Limits] = {}


def _read(wire: Wire, topic: str) -> TopicLimits:
    seen = look_at(wire, topic, creating=True)
    for pause in _NOT_YET_SECONDS:
        if seen.exists:
            break
        time.sleep(pause)
        seen = look_at(wire, topic, creating=True)
    if not seen.exists:
        return TopicLimits(exists=False)
    found = settings_of(wire, topic, _ASKED)
    most = found.get("max.message.bytes")
    return TopicLimits(
        partitions=seen.partitions or None,
        most_bytes=None if most is None else int(most),
        plain=found.get("compression.type") == "uncompressed",
        compacted="compact" in found.get("cleanup.policy", "").split(","),
    )
