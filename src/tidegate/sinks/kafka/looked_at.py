"""Rows as messages, and the rows that no topic would accept. They are found before anything is written.

The checks are those of the brokers and the client: the size of a record batch, the partitions of a topic, a key if the
topic is compacted, the existence of a topic that a row names. A row is refused only by limits that were read a moment
ago. Rules that only the brokers know are not checked: their refusal ends the job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidegate.core.errors import Code, Detail
from tidegate.kafka.refusals import shortly
from tidegate.sinks.dead_letters import without
from tidegate.sinks.kafka.compressed_size import fits_compressed
from tidegate.sinks.kafka.messages import Layout, Message
from tidegate.sinks.kafka.record_size import at_most_bytes, batch_bytes, client_bytes
from tidegate.sinks.kafka.topic_limits import Limits, TopicLimits
from tidegate.sinks.rows import RowRefused, one_for_each_row

AGAIN = "then start again: the epoch's input comes again"
_ELSE = "leave such rows out with where=, or give the query dead_letters="


@dataclass(frozen=True, slots=True)
class Looked:
    """One batch of a sink's rows. `messages`: the messages of all rows by topic, if none is refused. `plain`: messages
    have only key and value.
    """

    batch: pa.RecordBatch
    refused: Sequence[RowRefused]
    messages: Mapping[str, list[Message]]
    plain: bool


def looked_at(batch: pa.RecordBatch, layout: Layout, limits: Limits | None) -> Looked:
    """The messages of `batch`. Without `limits`, rows are refused by their values alone."""
    refused = layout.refused(batch)
    rest = without(batch, refused) if refused else batch
    messages = layout.messages(rest)
    if limits is not None and rest.num_rows:
        look = _BatchLook(layout, limits, rest)
        found = [each for topic, some in messages.items() for each in look.refused(topic, some)]
        if found:
            refused = one_for_each_row([*refused, *_in_whole(found, refused, batch.num_rows)])
    return Looked(batch, refused, messages, layout.is_plain)


def _in_whole(found: Sequence[RowRefused], gone: Sequence[RowRefused], rows: int) -> Iterator[RowRefused]:
    """The refusals among the remaining rows, with row numbers of the whole batch."""
    away = {each.row for each in gone}
    places = [row for row in range(rows) if row not in away]
    for each in found:
        each.row = None if each.row is None else places[each.row]
        yield each


class _BatchLook:
    def __init__(self, layout: Layout, limits: Limits, batch: pa.RecordBatch) -> None:
        self._layout = layout
        self._limits = limits
        self._batch = batch
        self._client_most = limits.client_most_bytes

    def refused(self, topic: str, messages: Sequence[Message]) -> list[RowRefused]:
        """The messages to one topic that it would refuse."""
        if not self._is_suspect(self._limits.of(topic), messages):
            return []
        limits = self._limits.fresh(topic)
        rows = self._layout.rows_to(self._batch, topic)
        found = [self._refusal(topic, limits, row, each) for row, each in zip(rows, messages, strict=True)]
        return [each for each in found if each is not None]

    def _is_suspect(self, limits: TopicLimits, messages: Sequence[Message]) -> bool:
        """A quick check, which most batches pass."""
        most = self._client_most if limits.most_bytes is None else min(limits.most_bytes, self._client_most)
        return (
            (not limits.exists and self._layout.topic is None)
            or at_most_bytes(messages) > most
            or (limits.compacted and any(each["key"] is None for each in messages))
            or (
                limits.partitions is not None
                and self._layout.partition is not None
                and any(each.get("partition", -1) >= limits.partitions for each in messages)
            )
        )

    def _refusal(self, topic: str, limits: TopicLimits, row: int, message: Message) -> RowRefused | None:
        if not limits.exists:  # a missing topic that the program names is not the fault of a row
            return self._no_topic(topic, row, message) if self._layout.topic is None else None
        partition = message.get("partition", -1)
        if limits.partitions is not None and partition >= limits.partitions:
            return self._no_partition(topic, limits.partitions, row, message)
        if limits.compacted and message["key"] is None:
            return self._no_key(topic, row, message)
        if client_bytes(message) > self._client_most:
            return self._too_large_for_client(topic, limits, row, message)
        if limits.most_bytes is not None and not self._fits(message, limits.most_bytes, limits):
            return self._too_large(topic, limits.most_bytes, row, message)
        return None

    def _fits(self, message: Message, most: int, limits: TopicLimits) -> bool:
        return batch_bytes(message) <= most if limits.plain else fits_compressed(message, most, self._limits.sending)

    # --- error texts ---------------------------------------------------------------------------------------

    def _no_topic(self, topic: str, row: int, message: Message) -> RowRefused:
        return RowRefused(
            code=Code.KAFKA_TOPIC_MISSING,
            row=row,
            column=self._layout.topic_column,
            expected=f"the name of a topic in {self._layout.topic_column!r}",
            found=f"{topic!r}: there is no such topic, and the brokers do not create it",
            next_step=f"create the topic, or {_ELSE}; {AGAIN}",
            details=shown(topic, message),
        )

    def _no_partition(self, topic: str, partitions: int, row: int, message: Message) -> RowRefused:
        return RowRefused(
            row=row,
            column=self._layout.partition,
            expected=f"a partition that topic {topic!r} has (0 to {partitions - 1}), or a null",
            found=str(message.get("partition")),
            next_step=f"mend the column in select=[...], add partitions to the topic, or {_ELSE}; {AGAIN}",
            details=shown(topic, message),
        )

    def _no_key(self, topic: str, row: int, message: Message) -> RowRefused:
        key = self._layout.key
        return RowRefused(
            row=row,
            column=key,
            expected=f"a key in every row to topic {topic!r}, which is compacted",
            found="no key: the sink has no key column" if key is None else "a null",
            next_step=f"{'name the column with key=' if key is None else 'mend the column in select=[...]'},"
            f" or {_ELSE}; {AGAIN}",
            details=shown(topic, message),
        )

    def _too_large(self, topic: str, most: int, row: int, message: Message) -> RowRefused:
        size = batch_bytes(message)
        codec = self._limits.sending["compression.type"]
        how = "" if codec == "none" else f" before compression, and too many after it ({codec})"
        return RowRefused(
            row=row,
            column=self._layout.largest(self._batch, row),
            expected=f"a record batch of at most {most} bytes for topic {topic!r} (its max.message.bytes)",
            found=f"one row of {size} bytes{how}",
            next_step=f"raise it (kafka-configs --bootstrap-server {self._limits.servers} --alter --entity-type topics"
            f" --entity-name {topic} --add-config max.message.bytes={size}), or {_ELSE}; {AGAIN}",
            details=shown(topic, message),
        )

    def _too_large_for_client(self, topic: str, limits: TopicLimits, row: int, message: Message) -> RowRefused:
        size, most = client_bytes(message), limits.most_bytes
        beside = "" if most is None or most >= size else f" and max.message.bytes of the topic (now {most})"
        return RowRefused(
            row=row,
            column=self._layout.largest(self._batch, row),
            expected=f"a record of at most {self._client_most} bytes (message.max.bytes of the sink's client)",
            found=f"one of {size} bytes",
            next_step=f'raise options={{"message.max.bytes": {size}}} of the sink{beside}, or {_ELSE}; {AGAIN}',
            details=shown(topic, message),
        )


def shown(topic: str, message: Message) -> dict[str, Detail]:
    """Topic, partition and key of a message, short enough for an error."""
    partition = message.get("partition", -1)
    return {
        "topic": topic,
        **({"partition": partition} if partition >= 0 else {}),
        "key": shortly(message["key"]),
    }
