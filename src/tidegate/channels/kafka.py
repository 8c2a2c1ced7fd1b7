"""A channel over Kafka: its rows are ordinary records of a topic, which other consumers may read too.

The writing end is a Kafka sink, exactly-once in every mode. Beside the topic a channel has two kinds of records in the
folder of the job: where each generation begins (module `topic`), and where the channel ends with each epoch
(`ChannelEpoch`). The second is durable before the writer's next epoch begins. A driver that was paused, and has lost
the job, finds it there: it cannot record an end that has rows of a later epoch.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import ClassVar

import msgspec
import pyarrow as pa

from tidegate.channels.channel import Channel, RowsBetween, Shares
from tidegate.channels.described_topic import DescribedKafkaChannel
from tidegate.channels.log import ChannelLog, taken
from tidegate.channels.topic import ANSWER_KEPT_SECONDS, TopicOfChannel
from tidegate.channels.topic_checks import kept_too_short, refused_values
from tidegate.channels.topic_claim import TopicClaim, topic_taken
from tidegate.channels.topic_rows import TopicRowsOfTask
from tidegate.core.channel_parts import ChannelPosition, generation_of, part_of
from tidegate.core.errors import Code, TidegateError
from tidegate.core.health import Finding, Health, failed_by
from tidegate.core.levels import Level
from tidegate.core.records import SinkIdentity
from tidegate.sinks.base import SinkPlan, TwoPhaseSink
from tidegate.sinks.kafka.described import KafkaTarget, options_of
from tidegate.sinks.kafka.looked_at import Looked
from tidegate.sinks.kafka.sink import KafkaSink
from tidegate.sinks.kafka.wires import reached
from tidegate.sinks.rows import one_for_each_row
from tidegate.sources.base import goes_back
from tidegate.sources.kafka.offsets import shared_by_tasks
from tidegate.sources.kafka.topics import TopicSelection
from tidegate.storages.schemes import Folder

_PATIENCE_SECONDS = 60.0
CLAIMED_AGAIN_AFTER_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class KafkaChannel:
    """The topic of a channel: `job.channel("orders", KafkaChannel("localhost:9092", topic="orders"))`.

    Each row is a record whose value is a JSON object of its columns. Other consumers see ordinary records, those with
    `isolation.level=read_committed` exactly once; after a restore they also keep what the abandoned timeline has
    written, as with Flink. The queries of the job skip it.

    `servers`: the brokers, `host:port,...`. `topic`: an existing topic that no other job writes; it must keep records
    (`cleanup.policy=delete`) for as long as its readers lag. `key`: a column; rows with the same key are in one
    partition, in their order. `options`: librdkafka's settings, for the writer and the readers; a value may be
    `env:NAME` or `file:PATH`. `transaction_timeout`, `transactional_id_prefix`: as in `KafkaSink`.
    """

    servers: str
    topic: str
    key: str | None = None
    options: Mapping[str, str | int | float | bool] = field(default_factory=dict[str, "str | int | float | bool"])
    transaction_timeout: float | None = None
    transactional_id_prefix: str = ""

    def sink(self, uid: str, folder: Folder, max_unread: int | None) -> KafkaChannelSink:
        """The channel of this uid. `folder`, `max_unread`: as in `Channel`."""
        return KafkaChannelSink(uid, folder, self, max_unread)


class KafkaChannelSink(KafkaSink, Channel):
    """The writing end of a channel over Kafka, and what its readers ask of it."""

    levels: ClassVar[frozenset[Level]] = frozenset({Level.EXACTLY_ONCE})
    kind: ClassVar[str] = "kafka-channel"
    holds_json: ClassVar[bool] = True
    stays_in_job: ClassVar[bool] = True

    def __init__(self, uid: str, folder: Folder, over: KafkaChannel, max_unread: int | None = None) -> None:
        """`folder`, `max_unread`: as in `Channel`."""
        KafkaSink.__init__(
            self,
            uid,
            over.servers,
            topic=over.topic,
            key=over.key,
            options=over.options,
            transaction_timeout=over.transaction_timeout,
            transactional_id_prefix=over.transactional_id_prefix,
            delivery=Level.EXACTLY_ONCE.value,
        )
        Channel.__init__(self, folder, max_unread)
        self._topic_name = over.topic
        self._topic: TopicOfChannel | None = None
        self._claimed_at = -math.inf

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), **self.NOT_PICKLED, "_topic": None}

    def as_source(self) -> DescribedKafkaChannel:
        return DescribedKafkaChannel(self.clients, TopicSelection((self._topic_name,)))

    # --- of the queries of the job ---------------------------------------------------------------------------

    def stand(self, writer: SinkIdentity, epoch: int) -> None:
        """The first record of an epoch counts. A driver that was paused may come late with its own. It then finds that
        of the driver after it, or puts one that this driver would have put, because no later epoch has begun.
        """
        if not self.log.has_noted(writer.generation, epoch):
            self._claim(writer)
            ends = {**self._older(writer.generation), **self._of_topic.stand(writer.generation)}
            self.log.note(writer.job_id, writer.query, writer.generation, epoch, ends)

    def begin_of(self, generation: int) -> ChannelPosition:
        return {part_of(self.folder.name, generation): 0, **self._of_topic.oldest(generation)}

    def readable(self) -> ChannelPosition:
        """Readers stand at recorded ends: what an aborted transaction has left behind one belongs to the next epoch."""
        readable, topic = self._of_topic.readable(), self._of_topic.newest_generation
        ends = {part: min(end, readable.get(part, 0)) for part, end in self.log.ends.items()}
        return {part: end for part, end in {**ends, **self._older(topic)}.items() if end}

    def shares(self, begin: ChannelPosition, end: ChannelPosition, tasks: int, where: str) -> Shares:
        return shared_by_tasks(self._of_topic.ranges(begin, end), tasks)

    def rows(self, schema: pa.Schema, where: str) -> TopicRowsOfTask:
        return TopicRowsOfTask(self.clients, self._topic_name, schema, where)

    def settled(self) -> ChannelPosition:
        """The broker answers a commit before its markers are in all partitions; readers stop there until they are."""
        by = time.monotonic() + _PATIENCE_SECONDS
        while left := goes_back(self.log.ends, end := self.readable()):
            if time.monotonic() > by:
                raise self._held_up(left)
            time.sleep(ANSWER_KEPT_SECONDS)
        return end

    def between(self, begin: ChannelPosition, end: ChannelPosition) -> RowsBetween:
        """At most so many rows: an offset may belong to none."""
        return RowsBetween(sum(each.end - each.start for each in self._of_topic.parts.ranges(begin, end)), 0)

    def _older(self, generation: int) -> ChannelPosition:
        """The ends of the parts of older generations as they were recorded: they may be in another topic."""
        return {part: end for part, end in self.log.ends.items() if generation_of(part) < generation}

    def _claim(self, writer: SinkIdentity) -> None:
        """Claim the topic, if that was not done lately: brokers forget a claim after days."""
        now = time.monotonic()
        if now - self._claimed_at >= CLAIMED_AGAIN_AFTER_SECONDS:
            with self._claim_of_topic() as claim:
                claim.take(writer, self._settings().timeout_ms)
            self._claimed_at = now

    def _claimed(self, identity: SinkIdentity) -> list[TidegateError]:
        with self._claim_of_topic() as claim:
            other = claim.other(identity)
        return [] if other is None else [topic_taken(self._topic_name, identity, other)]

    @contextmanager
    def _claim_of_topic(self) -> Generator[TopicClaim]:
        with reached(self) as wire:
            yield TopicClaim(wire, self.prefix, self._topic_name)

    def _held_up(self, left: str) -> TidegateError:
        return TidegateError(
            Code.KAFKA_UNREACHABLE,
            expected=f"to read what the writer has committed, within {_PATIENCE_SECONDS:.0f} s",
            found=f"an open transaction in topic {self._topic_name} before it: {left}",
            where=f"channel {self.uid}, {self.clients.servers}",
            next_step="end that transaction (`tidegate txn ls` shows those of this job), then start again",
        )

    @property
    def _of_topic(self) -> TopicOfChannel:
        if self._topic is None:
            self._topic = TopicOfChannel(self.uid, self.folder, self._topic_name, self.clients)
        return self._topic

    # --- of a sink -------------------------------------------------------------------------------------------

    def describe(self) -> Mapping[str, object]:
        return {**super().describe(), "folder": str(self.folder)}

    @classmethod
    def from_description(
        cls, uid: str, described: Mapping[str, object], options: Mapping[str, str], delivery: str
    ) -> TwoPhaseSink:
        target = msgspec.convert(described, KafkaTarget)
        over = KafkaChannel(
            target.servers,
            str(target.topic),
            key=target.key,
            options=options_of(target, options),
            transaction_timeout=target.transaction_timeout,
            transactional_id_prefix=target.prefix,
        )
        return cls(uid, Folder.of(str(described["folder"])), over)

    @classmethod
    def told(cls, described: Mapping[str, object]) -> str:
        return f"channel over {super().told(described)}"

    def probe(self, what: str, plan: SinkPlan) -> Sequence[Finding]:
        """Also whether the topic keeps its rows for as long as a start demands."""
        found = super().probe(what, plan)
        if any(each.health is Health.FAILED for each in found):
            return found
        too_short = kept_too_short(self, self._topic_name, plan)
        return [*found, *(finding for each in too_short for finding in failed_by(what, each))]

    def check(self, plan: SinkPlan) -> Sequence[TidegateError]:
        """A start reads the records again: another driver may have written some since."""
        self._log, self._topic = None, None
        other = self.log.other_writer(plan.identity.query, plan.identity.generation)
        found = [*super().check(plan), *([] if other is None else [taken(self.folder, plan.identity, other)])]
        return found or [*kept_too_short(self, self._topic_name, plan), *self._claimed(plan.identity)]

    def open(self, plan: SinkPlan) -> None:
        super().open(plan)
        self.log.sweep()
        self._claim(plan.identity)

    def _look(self, batch: pa.RecordBatch) -> Looked:
        looked, unreadable = super()._look(batch), list(refused_values(batch))
        return looked if not unreadable else replace(looked, refused=one_for_each_row([*looked.refused, *unreadable]))

    def forget(self, identity: SinkIdentity) -> None:
        super().forget(identity)
        with self._claim_of_topic() as claim:
            claim.release(identity)
        ChannelLog(self.folder).forget(identity.job_id)
