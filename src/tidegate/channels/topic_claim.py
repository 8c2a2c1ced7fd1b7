"""The claim of a topic: one channel of one job writes it.

The claim is an offset of a consumer group that has the name of the topic. Its metadata names the owner. It is committed
in a transaction (KIP-98): opening the transaction fences every other start that claims the topic at this moment, and
what is there is read behind it. So of two starts one finds the claim of the other, or is refused and looks again.

Each start makes the claim anew, and a long run does every hour, because brokers remove the offsets of a group without
members after some time (`offsets.retention.minutes`). `tidegate forget` removes it.
"""

from __future__ import annotations

import random
import time
from contextlib import suppress

import msgspec

from tidegate.core.errors import Code, TidegateError
from tidegate.core.json_formats import Unreadable, parsed
from tidegate.core.records import SinkIdentity
from tidegate.kafka.replies import KafkaRefused, Reply
from tidegate.kafka.transactions import OffsetMark
from tidegate.kafka.wire import Wire
from tidegate.sinks.kafka.names import ids_begin
from tidegate.sinks.staging import file_name

_PAUSES_SECONDS = (0.05, 0.2, 0.5, 1.0)
"""Between five tries."""


class TopicOwner(msgspec.Struct, frozen=True):
    """The channel that writes a topic. `sink`: the uid of the channel."""

    job: str
    job_id: str
    sink: str


class TopicClaim:
    """The claim of one topic. `prefix`: that of the transactional ids. The name of the claim begins with it too: a user
    may have rights on such names alone.
    """

    def __init__(self, wire: Wire, prefix: str, topic: str) -> None:
        self._wire = wire
        self._topic = topic
        self.group = f"{ids_begin(prefix)}channel.{file_name(topic)}"

    def other(self, identity: SinkIdentity) -> TopicOwner | None:
        """The channel that has claimed the topic, if it is another one."""
        marks = self._wire.marks({self.group: self._topic}).get(self.group, [])
        owners = [found for mark in marks if mark.topic == self._topic and (found := _owner(mark)) is not None]
        return next((owner for owner in owners if (owner.job_id, owner.sink) != (identity.job_id, identity.sink)), None)

    def take(self, identity: SinkIdentity, timeout_ms: int) -> None:
        """Claim the topic. Raises CHANNEL_TAKEN if another channel has it.

        Two starts that try again at once would fence each other again, and a broker under load can still have an older
        try before it. So each pause is longer, and none has a fixed length. Raises KafkaRefused if other starts come
        between again and again.
        """
        for pause in _PAUSES_SECONDS:
            with suppress(KafkaRefused):
                return self._take(identity, timeout_ms)
            time.sleep(random.uniform(pause / 2, pause))
        return self._take(identity, timeout_ms)

    def _take(self, identity: SinkIdentity, timeout_ms: int) -> None:
        producer = self._wire.fence(self.group, timeout_ms)
        if (other := self.other(identity)) is not None:
            raise topic_taken(self._topic, identity, other)
        owner = msgspec.json.encode(TopicOwner(identity.job, identity.job_id, identity.sink)).decode()
        self._wire.send_mark(producer, OffsetMark(self.group, self._topic, 1, owner))
        [code] = self._wire.commit([producer])
        if code != Reply.NONE:
            raise KafkaRefused("EndTxn", code, self.group)

    def release(self, identity: SinkIdentity) -> None:
        """Remove the claim of this job."""
        if self.other(identity) is None:
            self._wire.delete_groups([self.group])


def topic_taken(topic: str, identity: SinkIdentity, other: TopicOwner) -> TidegateError:
    return TidegateError(
        Code.CHANNEL_TAKEN,
        expected=f"topic {topic!r} for channel {identity.sink} of job {identity.job} (id {identity.job_id}) alone",
        found=f"channel {other.sink} of job {other.job} (id {other.job_id}) writes it",
        where=str(identity),
        next_step="name another topic for this channel: a copy of a job needs topics of its own; or, if that job is"
        f" gone for good, tidegate forget {other.job} --evidence-of {other.job_id}",
    )


def _owner(mark: OffsetMark) -> TopicOwner | None:
    try:
        return parsed(mark.metadata, TopicOwner)
    except Unreadable:
        return None
