"""Helpers for topics of real brokers: create a topic, write records, and read all records up to the end."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import LatestSpec, OffsetSpec
from confluent_kafka.cimpl import NewTopic

PARTITIONS = 8
"""More than a machine of tests has cores: one slot for several tasks is a fault that fewer hide."""

_SECONDS = 60.0
_AT_ONCE = 1000
_NO_LEADER_YET = frozenset(
    {
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)
"""What a broker answers that has just started and does not lead its partitions yet."""
_NOT_LISTED_YET = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE})
_PART_SECONDS = 0.05  # what has come by then is taken, be it less than was asked for


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A record to write, or one that was read. Only a record that was read has a partition and an offset."""

    value: bytes | None
    key: bytes | None = None
    partition: int = -1
    offset: int = -1
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = 0


class NotReadToTheEnd(Exception):
    """Not all records could be read in time, because an open transaction is before the high watermark."""


def make_topic(
    servers: str,
    partitions: int = PARTITIONS,
    *,
    name: str = "topic",
    config: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
) -> str:
    """Create a topic with a unique name and return that name. `name`: how the name begins."""
    topic = f"{name}-{uuid.uuid4().hex[:12]}"
    create_topic(servers, topic, partitions, config=config, options=options)
    return topic


def create_topic(
    servers: str,
    topic: str,
    partitions: int,
    *,
    config: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
) -> None:
    """Create a topic with this name, and wait until the brokers list it: they learn of it a moment after the
    controller has answered. `options`: client options, for example for a login.
    """
    admin: Any = AdminClient({**(options or {}), "bootstrap.servers": servers})
    made = admin.create_topics(
        [NewTopic(topic, num_partitions=partitions, config=dict(config or {}))], operation_timeout=_SECONDS
    )
    made[topic].result(_SECONDS)
    end = time.monotonic() + _SECONDS
    while (error := admin.list_topics(topic, timeout=_SECONDS).topics[topic].error) is not None:
        if error.code() not in _NOT_LISTED_YET or time.monotonic() > end:
            return
        time.sleep(_PART_SECONDS)


def delete_topic(servers: str, topic: str) -> None:
    admin: Any = AdminClient({"bootstrap.servers": servers})
    admin.delete_topics([topic], operation_timeout=_SECONDS)[topic].result()


def produce(
    servers: str, topic: str, rows: Iterable[TopicRecord | bytes], *, options: Mapping[str, str] | None = None
) -> int:
    """Write rows and wait until the broker has confirmed each. Returns the number of rows."""
    producer = Producer({"bootstrap.servers": servers, "acks": "all", "linger.ms": 5, **(options or {})})
    refused: list[KafkaError] = []
    confirmed = 0

    def confirm(error: KafkaError | None, _message: Message) -> None:
        nonlocal confirmed
        confirmed += error is None
        if error is not None:
            refused.append(error)

    written = 0
    for given in rows:
        row = given if isinstance(given, TopicRecord) else TopicRecord(given)
        while True:
            try:
                _send(producer, topic, row, confirm)
                break
            except BufferError:
                producer.poll(0.1)
        written += 1
    producer.flush(_SECONDS)
    if refused or confirmed != written:
        raise KafkaException(refused[0] if refused else f"{written - confirmed} of {written} rows were not confirmed")
    return written


def high_watermarks(servers: str, topic: str) -> dict[int, int]:
    """The high watermark of each partition: its end, with the records of open transactions."""
    return _ends(servers, topic, IsolationLevel.READ_UNCOMMITTED)


def stable_ends(servers: str, topic: str) -> dict[int, int]:
    """The last stable offset of each partition: where its first open transaction begins; without one, its end."""
    return _ends(servers, topic, IsolationLevel.READ_COMMITTED)


def _ends(servers: str, topic: str, isolation: IsolationLevel) -> dict[int, int]:
    admin: Any = AdminClient({"bootstrap.servers": servers})
    partitions = admin.list_topics(topic, timeout=_SECONDS).topics[topic].partitions
    asked: dict[TopicPartition, OffsetSpec] = {TopicPartition(topic, number): LatestSpec() for number in partitions}
    end = time.monotonic() + _SECONDS
    while True:
        answered = admin.list_offsets(asked, isolation_level=isolation, request_timeout=_SECONDS)
        try:
            return {each.partition: answer.result(_SECONDS).offset for each, answer in answered.items()}
        except KafkaException as error:
            if error.args[0].code() not in _NO_LEADER_YET or time.monotonic() >= end:
                raise
            time.sleep(_PART_SECONDS)


def read_all(
    servers: str,
    topic: str,
    *,
    isolation: str = "read_committed",
    ends: Mapping[int, int] | None = None,
    seconds: float = _SECONDS,
) -> list[TopicRecord]:
    """Every record that `messages` returns, for each partition in the order of offsets."""
    found = messages(servers, topic, isolation=isolation, ends=ends, seconds=seconds)
    return sorted(map(_row, found), key=lambda row: (row.partition, row.offset))


def messages(
    servers: str,
    topic: str,
    *,
    isolation: str = "read_committed",
    ends: Mapping[int, int] | None = None,
    seconds: float = _SECONDS,
) -> Iterator[Message]:
    """Every record up to `ends`, or up to the present high watermark, in the order of arrival.

    Raises NotReadToTheEnd if no further record can be read for `seconds` because an open transaction blocks it.
    """
    ends = high_watermarks(servers, topic) if ends is None else ends
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"messages-{uuid.uuid4().hex}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,  # it comes at the last stable offset too
            "isolation.level": isolation,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
        yield from _read_to(consumer, topic, ends, seconds)
    finally:
        consumer.close()


def _read_to(consumer: Consumer, topic: str, ends: Mapping[int, int], seconds: float) -> Iterator[Message]:
    reached = dict.fromkeys(ends, 0)
    trouble: KafkaError | None = None
    deadline = time.monotonic() + seconds
    while any(reached[partition] < end for partition, end in ends.items()):
        for message in consumer.consume(_AT_ONCE, _PART_SECONDS):
            error, (partition, offset) = message.error(), place_of(message)
            if error is None:
                deadline = time.monotonic() + seconds
                reached[partition] = offset + 1
                if offset < ends[partition]:
                    yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                reached[partition] = offset
            else:
                trouble = error  # the consumer goes on by itself: a broker that has just come back says such things
        if time.monotonic() > deadline:
            raise NotReadToTheEnd(f"{topic}: read to {reached}, it ends at {dict(ends)}; last error: {trouble}")


def place_of(message: Message) -> tuple[int, int]:
    """Partition and offset of a message that a broker delivered."""
    partition, offset = message.partition(), message.offset()
    return (-1 if partition is None else partition), (-1 if offset is None else offset)


def _row(message: Message) -> TopicRecord:
    partition, offset = place_of(message)
    return TopicRecord(
        value=message.value(),
        key=message.key(),
        partition=partition,
        offset=offset,
        headers=tuple(cast("list[tuple[str, bytes | None]]", message.headers() or [])),
        timestamp_ms=message.timestamp()[1],
    )


def _send(
    producer: Producer, topic: str, row: TopicRecord, confirm: Callable[[KafkaError | None, Message], None]
) -> None:
    producer.produce(
        topic,
        row.value,
        row.key,
        partition=row.partition,
        headers=list(row.headers),
        timestamp=row.timestamp_ms,
        on_delivery=confirm,
    )
    producer.poll(0)
