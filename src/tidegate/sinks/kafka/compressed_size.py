"""Finds out if a message fits after the client has compressed it.

Compressors of one name differ in version, block size and window, so a repetitive row may be half as large. So the
client itself compresses the message: it sends the message to a broker inside this process (librdkafka's mock broker),
which reports the size of the batch. That takes some 15 ms, for rows whose plain size is too large. If Arrow's
compressor shows that the row is far below the limit, and the client sets no level, this step is skipped.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, cast

import msgspec
import pyarrow as pa
from confluent_kafka import Producer

from tidegate.core.json_formats import parsed
from tidegate.sinks.kafka.messages import Message
from tidegate.sinks.kafka.record_size import BATCH_HEADER_BYTES, batch_bytes, client_bytes, record

_SURELY_LESS = 0.7
_TOLD_EVERY_MS = 10
_PATIENCE_SECONDS = 10.0
_OF_COMPRESSION = ("compression.type", "compression.codec", "compression.level")


def fits_compressed(message: Message, at_most: int, options: Mapping[str, str]) -> bool:
    """True if the batch of this one message has at most `at_most` bytes, as a client with these options sends it."""
    if batch_bytes(message) <= at_most:
        return True
    codec = options.get("compression.type", options.get("compression.codec", "none"))
    if codec == "none":
        return False
    if "compression.level" not in options:
        about = BATCH_HEADER_BYTES + len(cast("Any", pa).compress(record(message), codec=codec, asbytes=True))
        if about < _SURELY_LESS * at_most:
            return True
    return _as_sent(message, options) <= at_most


def _as_sent(message: Message, options: Mapping[str, str]) -> int:
    told: list[int] = []

    def note(statistics: str) -> None:
        told.extend(each.batchsize.max for each in parsed(statistics, _SizesByTopic).topics.values())

    settings: dict[str, Any] = {
        **{name: options[name] for name in _OF_COMPRESSION if name in options},
        "test.mock.num.brokers": 1,
        "bootstrap.servers": "",
        "log_level": 0,
        "linger.ms": 0,
        "message.max.bytes": max(client_bytes(message), 1000),
        "statistics.interval.ms": _TOLD_EVERY_MS,
        "stats_cb": note,
    }
    client: Any = Producer(settings)
    client.produce("size", key=message["key"], value=message["value"], headers=message.get("headers"))
    end = time.monotonic() + _PATIENCE_SECONDS
    while not any(told) and time.monotonic() < end:
        client.poll(_TOLD_EVERY_MS / 1000)
    return max(told, default=0)


class _Size(msgspec.Struct):
    max: int


class _TopicSizes(msgspec.Struct):
    batchsize: _Size


class _SizesByTopic(msgspec.Struct):
    topics: dict[str, _TopicSizes]
