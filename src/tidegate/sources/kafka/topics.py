"""Asks the brokers about topics: ids, partitions, and the oldest and newest offsets of each partition."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotDoneInTime
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AclOperation, AdminClient, OffsetSpec

from tidegate.core.errors import Code, TidegateError
from tidegate.kafka.clients import Clients, Refusals
from tidegate.kafka.refusals import code_of, unreachable
from tidegate.kafka.right import Right
from tidegate.sources.kafka.offsets import OffsetOf, Partition

ResultT = TypeVar("ResultT")

_ANSWER_SECONDS = 5.0
_NO_ANSWER_SECONDS = 2 * _ANSWER_SECONDS
"""The client ends a request at its limit, and tells in a thread of its own: that one may be late."""
_OF_KAFKA_ITSELF = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """Which partitions a source reads.

    Exactly one of the three is given. `pattern` must match the whole name of a topic.
    """

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])

    def named(self) -> tuple[str, ...]:
        """The topics that are given by name and must exist."""
        return self.topics or tuple(self.partitions)

    def has(self, partition: Partition) -> bool:
        """True if the selection contains this partition."""
        return not self.partitions or partition[1] in self.partitions[partition[0]]

    def __str__(self) -> str:
        return f"pattern {self.pattern}" if self.pattern is not None else f"topics {', '.join(self.named())}"


@dataclass(frozen=True, slots=True)
class FoundPartitions:
    """The partitions of a selection that exist now, and the ids of their topics."""

    partitions: frozenset[Partition]
    topic_ids: Mapping[str, str]


class PartitionEnd(Enum):
    """Which end of a partition: its oldest existing record, or the position after its newest committed record."""

    EARLIEST = "earliest"
    LATEST = "latest"
    """The last stable offset: open transactions are behind it."""
    HIGH_WATERMARK = "high watermark"
    """The position after the newest record that all in-sync replicas have, also if its transaction is open."""


class Topics:
    """Asks the brokers. Every method raises KAFKA_UNREACHABLE if they do not answer within 5 seconds or deny access."""

    def __init__(self, clients: Clients, where: str) -> None:
        self._clients = clients
        self._where = where
        self._refusals = Refusals()
        self._has_answered = False
        settings = clients.settings()
        settings["error_cb"] = self._refusals.note
        self._admin = AdminClient(settings)

    def find(self, selection: TopicSelection) -> FoundPartitions:
        """The existing partitions of a selection.

        Raises KAFKA_TOPIC_MISSING if a named topic does not exist, KAFKA_UNREACHABLE if this user may not read it.
        """
        names = selection.named() if selection.pattern is None else self._matching(selection.pattern)
        if not names:
            return FoundPartitions(frozenset(), {})
        self._admin.poll(0)  # errors beside the calls are kept until the next poll
        futures = self._admin.describe_topics(
            TopicCollection(list(names)), include_authorized_operations=True, request_timeout=_ANSWER_SECONDS
        )
        described = {name: found for name, future in futures.items() if (found := self._describe(name, future))}
        missing = [name for name in selection.named() if name not in described]
        if missing:
            raise self.missing(f"topic {', '.join(missing)}", "no such topic")
        for name, found in described.items():
            if found.authorized_operations and AclOperation.READ not in found.authorized_operations:
                raise self._unread(name)
        partitions = frozenset((name, each.id) for name, found in described.items() for each in found.partitions)
        absent = {(name, number) for name, numbers in selection.partitions.items() for number in numbers} - partitions
        if absent:
            raise self.missing(f"partitions {spelt(absent)}", "they do not exist")
        self._has_answered = True
        return FoundPartitions(
            frozenset(filter(selection.has, partitions)),
            {name: str(found.topic_id) for name, found in described.items()},
        )

    def at(self, partitions: Collection[Partition], mark: PartitionEnd) -> OffsetOf:
        """This end of each partition."""
        spec = OffsetSpec.earliest() if mark is PartitionEnd.EARLIEST else OffsetSpec.latest()
        uncommitted = mark is PartitionEnd.HIGH_WATERMARK
        return self._offsets(
            partitions, spec, IsolationLevel.READ_UNCOMMITTED if uncommitted else IsolationLevel.READ_COMMITTED
        )

    def at_time(self, partitions: Collection[Partition], milliseconds: int) -> OffsetOf:
        """The offset of the first record in each partition that is not older than the time; the partition's end if
        there is none.
        """
        found = self._offsets(partitions, OffsetSpec.for_timestamp(milliseconds))
        none = [partition for partition, offset in found.items() if offset < 0]
        return {**found, **(self.at(none, PartitionEnd.LATEST) if none else {})}

    def committed(self, partitions: Collection[Partition], group: str) -> OffsetOf:
        """The offsets that a consumer group has committed. Partitions without a committed offset are left out."""
        if not partitions:
            return {}
        places = [TopicPartition(topic, number) for topic, number in partitions]
        what, right = f"list the offsets of group {group}", Right("Read", "group", group)
        futures = self._ask(
            what,
            lambda: self._admin.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group, places)], request_timeout=_ANSWER_SECONDS
            ),
            right,
        )
        found = self._ask(what, partial(futures[group].result, _NO_ANSWER_SECONDS), right).topic_partitions
        return {(place.topic, place.partition): place.offset for place in found if place.offset >= 0}

    def missing(self, expected: str, found: str) -> TidegateError:
        """The error for a topic or partition that does not exist."""
        return TidegateError(
            Code.KAFKA_TOPIC_MISSING,
            expected=expected,
            found=found,
            where=f"{self._where}, {self._clients.servers}",
        )

    def _unread(self, topic: str) -> TidegateError:
        return TidegateError(
            Code.KAFKA_UNREACHABLE,
            expected=f"READ on topic {topic!r} for the source's user",
            found=f"the brokers refuse READ on {topic}",
            where=f"{self._where}, {self._clients.servers}",
            next_step=f"kafka-acls {Right('Read', 'topic', topic).grant()}",
        )

    def _matching(self, pattern: str) -> tuple[str, ...]:
        fits = re.compile(pattern)
        metadata = self._ask("list topics", lambda: self._admin.list_topics(timeout=_ANSWER_SECONDS))
        return tuple(sorted(name for name in metadata.topics if fits.fullmatch(name) and name not in _OF_KAFKA_ITSELF))

    def _describe(self, name: str, future: Future[Any]) -> Any:
        """The description of a topic; None if it does not exist."""
        try:
            return future.result(_NO_ANSWER_SECONDS)
        except KafkaException as error:
            if code_of(error) == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None
            raise self._unreachable(f"to describe topic {name}", error, Right("Read", "topic", name)) from None
        except NotDoneInTime:
            raise self._silent(f"to describe topic {name}") from None

    def _offsets(
        self,
        partitions: Collection[Partition],
        spec: OffsetSpec | None,
        isolation: IsolationLevel = IsolationLevel.READ_COMMITTED,
    ) -> OffsetOf:
        if not partitions:
            return {}
        request: dict[TopicPartition, Any] = {TopicPartition(topic, number): spec for topic, number in partitions}
        futures: dict[TopicPartition, Future[Any]] = self._ask(
            "list offsets",
            lambda: self._admin.list_offsets(request, isolation_level=isolation, request_timeout=_ANSWER_SECONDS),
        )
        return {
            (place.topic, place.partition): self._ask("list offsets", partial(future.result, _NO_ANSWER_SECONDS)).offset
            for place, future in futures.items()
        }

    def _ask(self, what: str, call: Callable[[], ResultT], right: Right | None = None) -> ResultT:
        try:
            return call()
        except KafkaException as error:
            raise self._unreachable(f"to {what}", error, right) from None
        except NotDoneInTime:
            raise self._silent(f"to {what}") from None

    def _silent(self, expected: str) -> TidegateError:
        """The error for a request without an answer.

        The client has its own time limit; this one covers a client that hangs.
        """
        return self._unreachable(expected, KafkaException(KafkaError(KafkaError._TIMED_OUT)))  # pyright: ignore[reportPrivateUsage]

    def _unreachable(self, expected: str, error: KafkaException, right: Right | None = None) -> TidegateError:
        self._admin.poll(0)
        where = f"{self._where}, {self._clients.servers}"
        clients = None if self._has_answered else self._clients
        return unreachable(expected, self._refusals.take() or error, where, right=right, clients=clients)


def spelt(partitions: Collection[Partition]) -> str:
    """The partitions as text for a message: `lines-0, lines-1`."""
    return ", ".join(f"{topic}-{number}" for topic, number in sorted(partitions))
