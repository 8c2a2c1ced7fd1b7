"""What a read_committed reader of a topic sees now: no waiting for transactions that are open."""

from __future__ import annotations

import time
from typing import Any

from kafka import KafkaAdminClient

from tidegate.testing.kafka.topics import TopicRecord, read_all, stable_ends

_SECONDS = 30.0


def visible_now(servers: str, topic: str) -> list[TopicRecord]:
    """Every record below the last stable offset of its partition, once no transaction is being ended."""
    await_markers(servers)
    return read_all(servers, topic, ends=stable_ends(servers, topic))


def await_markers(servers: str) -> None:
    """Wait until no transaction is being ended: a commit is answered before its markers are in the partitions."""
    admin: Any = KafkaAdminClient(bootstrap_servers=servers)
    try:
        deadline = time.monotonic() + _SECONDS
        while any(admin.list_transactions(state_filters=["PrepareCommit", "PrepareAbort"]).values()):
            if time.monotonic() > deadline:
                raise TimeoutError("a transaction does not end")
            time.sleep(0.01)
    finally:
        admin.close()


def open_transactions(servers: str, begin: str = "") -> list[str]:
    """The transactional ids that begin so and whose transactions are open, on all coordinators.

    On a broker that tests share say whose are meant: others leave some open until the broker aborts them.
    """
    admin: Any = KafkaAdminClient(bootstrap_servers=servers)
    try:
        listed = admin.list_transactions(state_filters=["Ongoing", "PrepareCommit", "PrepareAbort"])
        names = sorted(each.transactional_id for found in listed.values() for each in found)
        return [name for name in names if name.startswith(begin)]
    finally:
        admin.close()
