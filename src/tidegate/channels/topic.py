"""The topic of a channel over Kafka, as the driver sees it: where generations begin, and what may be read.

    channels/<channel>/begins/<generation>   where the rows of a generation of the writer begin: `ChannelBegin`

A generation begins at the high watermark of each partition. It is read when the writer has recovered and its first
epoch has not begun: then no transaction of an older generation is open, and none of this one exists. The record is put
if absent, so that a second start of the generation keeps it.

The channel ends with an epoch at the high watermark, read when the epoch is done and the next one has not begun: all
rows of the epoch are below it, because their producers have waited for all in-sync replicas. Readers stop there, and
before the first open transaction (the last stable offset): it may be one that a dead executor has left.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from threading import Lock

from tidegate.channels.topic_parts import OffsetByPartition, TopicParts
from tidegate.core.channel_parts import ChannelPosition, generation_of
from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import ChannelBegin, encode
from tidegate.kafka.clients import Clients
from tidegate.sources.kafka.offsets import OffsetRange, Partition
from tidegate.sources.kafka.topics import FoundPartitions, PartitionEnd, Topics, TopicSelection
from tidegate.storages.opening import open_storage
from tidegate.storages.recorded import record_in
from tidegate.storages.schemes import Folder

BEGINS = "begins"
ANSWER_KEPT_SECONDS = 0.05
"""Spark asks an idle reader every 10 to 20 ms; the brokers are asked this seldom."""
LOOK_FOR_PARTITIONS_SECONDS = 10.0
"""So often a reader asks for new partitions. The writer asks at each epoch."""


class TopicOfChannel:
    """The topic, in one process. Threads share it."""

    def __init__(self, channel: str, folder: Folder, topic: str, clients: Clients) -> None:
        """`folder`: that of the channel."""
        self._channel = channel
        self._topic = topic
        self._where = f"channel {channel}, {clients.servers}"
        self._begins = open_storage(folder / BEGINS)
        self._topics = Topics(clients, f"channel {channel}")
        self._lock = Lock()
        self._known = {begin.generation: begin for begin in self._found()}
        self._readable: tuple[float, OffsetByPartition] = (0.0, {})
        self._partitions: tuple[float, frozenset[Partition]] = (0.0, frozenset())

    @property
    def parts(self) -> TopicParts:
        return TopicParts(self._channel, self._known)

    @property
    def newest_generation(self) -> int:
        """The newest generation that has begun; -1 before the first."""
        return max(self._known, default=-1)

    def stand(self, generation: int) -> ChannelPosition:
        """Where the channel ends: the writer of this generation is between two epochs. It begins with the first call.

        Raises KAFKA_TOPIC_RECREATED for a topic that is not the one of the generation.
        """
        found = self._look(self._topic)
        at = self._numbers(self._topics.at(found.partitions, PartitionEnd.HIGH_WATERMARK))
        with self._lock:
            if generation not in self._known:
                self._begin(generation, found.topic_ids[self._topic], at)
            self._demand_same(self._known[generation], found.topic_ids[self._topic])
            return self.parts.position(at)

    def readable(self) -> ChannelPosition:
        """Where the rows end that a reader may read, in the parts of the newest generation and those before it."""
        with self._lock:
            now = time.monotonic()
            asked_at, at = self._readable
            if now - asked_at >= ANSWER_KEPT_SECONDS:
                at = self._numbers(self._topics.at(self._looked_for(now), PartitionEnd.LATEST))
                self._readable = now, at
            return self.parts.position(at)

    def ranges(self, begin: ChannelPosition, end: ChannelPosition) -> list[OffsetRange]:
        """The ranges between two positions. Rows in flight are of an older generation, which may have another topic.

        Raises KAFKA_TOPIC_RECREATED if that one is not the topic any more that had the rows.
        """
        found, newest = self.parts.ranges(begin, end), self._known.get(self.newest_generation)
        for each in {each.topic: each for each in found if newest is None or each.topic_id != newest.topic_id}.values():
            now = self._look(each.topic).topic_ids[each.topic]
            if now != each.topic_id:
                raise self._in_flight_lost(each, now)
        return found

    def oldest(self, generation: int) -> ChannelPosition:
        """The parts of this generation that have lost rows to the retention of the topic: the oldest row of each."""
        begin = self._known.get(generation)
        if begin is None:
            return {}
        found = self._look(self._topic)
        at = self.parts.position(self._numbers(self._topics.at(found.partitions, PartitionEnd.EARLIEST)))
        return {part: row for part, row in at.items() if generation_of(part) == generation}

    def _looked_for(self, now: float) -> frozenset[Partition]:
        looked_at, partitions = self._partitions
        if not partitions or now - looked_at >= LOOK_FOR_PARTITIONS_SECONDS:
            found = self._look(self._topic)
            newest = self._known.get(self.newest_generation)
            if newest is not None:
                self._demand_same(newest, found.topic_ids[self._topic])
            self._partitions = now, found.partitions
        return self._partitions[1]

    def _look(self, topic: str) -> FoundPartitions:
        """The partitions and the id that a topic has now. Raises KAFKA_TOPIC_MISSING."""
        return self._topics.find(TopicSelection((topic,)))

    def _begin(self, generation: int, topic_id: str, at: OffsetByPartition) -> None:
        offsets = {str(number): offset for number, offset in sorted(at.items())}
        record = ChannelBegin(generation=generation, topic=self._topic, topic_id=topic_id, offsets=offsets)
        if not self._begins.put_if_absent(str(generation), encode(record)):
            record = record_in(self._begins, ChannelBegin, str(generation)) or record
        self._known[generation] = record

    def _found(self) -> list[ChannelBegin]:
        names = [name for name in self._begins.list("") if name.isdigit()]
        return [found for name in names if (found := record_in(self._begins, ChannelBegin, name)) is not None]

    def _numbers(self, at: Mapping[Partition, int]) -> OffsetByPartition:
        return {number: offset for (_, number), offset in at.items()}

    def _in_flight_lost(self, wanted: OffsetRange, now: str) -> TidegateError:
        return TidegateError(
            Code.KAFKA_TOPIC_RECREATED,
            expected=f"topic {wanted.topic} with the id {wanted.topic_id}, which has the rows in flight of the"
            " checkpoint that was restored",
            found=f"the id {now}",
            where=self._where,
            next_step="restore an aligned checkpoint, or a savepoint: nothing is in flight there",
        )

    def _demand_same(self, begin: ChannelBegin, topic_id: str) -> None:
        if begin.topic_id != topic_id or begin.topic != self._topic:
            raise TidegateError(
                Code.KAFKA_TOPIC_RECREATED,
                expected=f"topic {begin.topic} with the id {begin.topic_id}: generation {begin.generation} of the job"
                " has begun there",
                found=f"topic {self._topic} with the id {topic_id}",
                where=self._where,
                next_step="name the topic as before; or take a savepoint and restore it: a new generation may use"
                " another topic; or begin anew (tidegate run --fresh)",
            )
