"""What a read_committed reader of a topic sees now: no waiting for transactions that are open."""

from __future__ import annotations

import time
import uuid
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from kafka import KafkaAdminClient

from tidegate.testing.kafka.topics import Row, _row

_SECONDS = 30.0


def visible_now(servers: str, topic: str) -> list[Row]:
    """Every record below the last stable offset of its partition, once no transaction is being ended."""
    _await_markers(servers)
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"visible-{uuid.uuid4().hex}",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=_SECONDS).topics[topic].partitions
        at = [TopicPartition(topic, number) for number in partitions]
        # With read_committed the upper of these is the last stable offset.
        ends = {each.partition: consumer.get_watermark_offsets(each, timeout=_SECONDS)[1] for each in at}
        consumer.assign([TopicPartition(topic, number, 0) for number, end in ends.items() if end])
        return _read(consumer, topic, {number: end for number, end in ends.items() if end})
    finally:
        consumer.close()


def _read(consumer: Consumer, topic: str, ends: dict[int, int]) -> list[Row]:
    rows: list[Row] = []
    deadline = time.monotonic() + _SECONDS
    while ends:
        message = consumer.poll(0.05)
        row = None if message is None or message.error() else _row(message)
        if row is not None and row.offset < ends.get(row.partition, 0):
            rows.append(row)
        for position in consumer.position([TopicPartition(topic, number) for number in ends]):
            if position.offset >= ends[position.partition]:
                del ends[position.partition]
        if time.monotonic() > deadline:
            raise TimeoutError(f"{topic}: not read to {ends}")
    return rows


def _await_markers(servers: str) -> None:
    """A commit is answered before its markers are in the partitions."""
    admin: Any = KafkaAdminClient(bootstrap_servers=servers)
    try:
        deadline = time.monotonic() + _SECONDS
        while any(admin.list_transactions(state_filters=["PrepareCommit", "PrepareAbort"]).values()):
            if time.monotonic() > deadline:
                raise TimeoutError("a transaction does not end")
            time.sleep(0.01)
    finally:
        admin.close()


def open_transactions(servers: str) -> list[str]:
    """The transactional ids whose transactions are open, on all coordinators."""
    admin: Any = KafkaAdminClient(bootstrap_servers=servers)
    try:
        listed = admin.list_transactions(state_filters=["Ongoing", "PrepareCommit", "PrepareAbort"])
        return sorted(each.transactional_id for found in listed.values() for each in found)
    finally:
        admin.close()
