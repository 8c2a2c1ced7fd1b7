"""Reads the records of one range in a task as Arrow batches, with a consumer that the worker process reuses."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tidegate.arrays import binaries, integers
from tidegate.core.errors import Code, TidegateError
from tidegate.kafka.options import OWNED_BY_SOURCE
from tidegate.kafka.refusals import shortly, unreachable
from tidegate.kafka.right import Right
from tidegate.sources.kafka.offsets import OffsetRange, Partition, Skip
from tidegate.sources.kafka.source import LostRecords, TopicReading
from tidegate.sources.kafka.topics import Topics
from tidegate.sources.value_parsing import UNPARSED, VALUE, UnparsedValues

_LOG = logging.getLogger("tidegate")
BATCH_ROWS = 20_000
BATCH_BYTES = 16 * 1024 * 1024
_WAIT_SECONDS = 0.1
_PATIENCE_SECONDS = 60.0
"""So long a task waits for records, or for a mended connection, before it fails the epoch."""
_SAMPLE_ROWS = 200
_SAMPLE_PATIENCE_SECONDS = 2.0
_ANSWER_SECONDS = 5.0

_SETTINGS: Mapping[str, Any] = {
    "group.id": "tidegate",  # the client wants one; nothing is joined or committed
    **{each.name: each.value for each in OWNED_BY_SOURCE if each.value is not None},
}


def read(reading: TopicReading, wanted: OffsetRange, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The committed records of a range, in the order of offsets. `schema`: the columns to return. A column that the
    query does not use (see `reading.columns`) is null.

    Raises KAFKA_OFFSETS_LOST if records of the range no longer exist, KAFKA_UNREACHABLE if none arrive for a minute.
    With `LostRecords.SKIP`, lost records are skipped: this is allowed, because the epoch is not decided yet.
    """
    used = reading.columns
    for messages in _kept(reading, wanted, _PATIENCE_SECONDS):
        parsed = _parsed(reading, wanted, messages)
        arrays = [
            parsed[field.name]
            if field.name in parsed
            else _COLUMNS[field.name](messages, wanted).cast(field.type)
            if used is None or field.name in used
            else pa.nulls(len(messages), field.type)
            for field in schema
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _parsed(reading: TopicReading, wanted: OffsetRange, messages: Sequence[Message]) -> Mapping[str, pa.Array[Any]]:
    """The columns made of the values, if these are parsed and the query uses them. Raises ROW_UNPARSED."""
    values, used = reading.values, reading.columns
    if values is None or not (used is None or VALUE in used or UNPARSED in used):
        return {}
    texts = [message.value() for message in messages]
    parsed = values.parser.parsed(texts)
    if parsed.unparsed and values.unparsed is UnparsedValues.REFUSE:
        first = parsed.unparsed[0]
        raise TidegateError(
            Code.ROW_UNPARSED,
            expected=values.expected,
            found=f"{shortly(texts[first.row])}: {first.reason}",
            where=f"{reading.where}, {wanted.topic}-{wanted.partition}, offset {_offset(messages[first.row])}",
            next_step=values.next_step,
        )
    return values.columns(texts, parsed)


def mean_bytes(reading: TopicReading, partition: Partition, offset: int, end: int) -> float:
    """The mean size in bytes of key and value, of a sample of records between two offsets; 1 if there are none."""
    topic, number = partition
    wanted = OffsetRange(topic, number, offset, min(offset + _SAMPLE_ROWS, end))
    messages = [each for some in _kept(reading, wanted, _SAMPLE_PATIENCE_SECONDS) for each in some]
    return sum(map(_size, messages)) / len(messages) if messages else 1.0


def _kept(reading: TopicReading, wanted: OffsetRange, patience_seconds: float) -> Iterator[list[Message]]:
    """The messages of a range, read with this process's idle consumer or a new one.

    After an error the consumer is closed.
    """
    key = (reading.clients.servers, *sorted(reading.clients.options.items()))
    consumer = _CONSUMERS.pop(key, None) or Consumer({**reading.clients.settings(), **_SETTINGS})
    sound = False
    try:
        consumer.assign([TopicPartition(wanted.topic, wanted.partition, wanted.start)])
        yield from messages_in(consumer, wanted, patience_seconds, reading)
        consumer.unassign()
        sound = True
    except KafkaException as error:
        raise unreachable(_named(wanted), error, reading.where, right=Right("Read", "topic", wanted.topic)) from None
    finally:
        if sound:
            _CONSUMERS[key] = consumer
        else:
            consumer.close()


_CONSUMERS: dict[tuple[Any, ...], Consumer] = {}
"""Idle consumers by how they are opened: opening one takes 200 ms, longer than many an epoch."""


def messages_in(
    consumer: Consumer, wanted: OffsetRange, patience_seconds: float, reading: TopicReading
) -> Iterator[list[Message]]:
    """Yield the messages of a range in lists of limited size.

    In a transactional topic the last offsets of a range may belong to no message. So the range also ends if a later
    message arrives, if the end of the partition is reported, or if the consumer's own position is past it.
    """
    held: list[Message] = []
    size, reached = 0, wanted.start
    heard = time.monotonic()
    while True:
        found = consumer.consume(1, _WAIT_SECONDS)
        found += consumer.consume(BATCH_ROWS - len(held), 0.0) if found else []
        events = [message for message in found if message.error() is not None]
        messages = [message for message in found if message.error() is None] if events else found
        reached = _position(consumer, replace(wanted, start=reached), messages, events, reading)
        ended = reached >= wanted.end
        if not ended and not found and time.monotonic() - heard > patience_seconds:
            if not _is_cut_short(consumer, replace(wanted, start=reached), reading):
                raise _silent(wanted, patience_seconds, reading.where)
            ended = True
        if ended and messages and _offset(messages[-1]) >= wanted.end:
            messages = [message for message in messages if _offset(message) < wanted.end]
        held += messages
        size += sum(map(len, messages))
        if held and (ended or len(held) >= BATCH_ROWS or size >= BATCH_BYTES):
            yield held
            held, size = [], 0
        if ended:
            return
        if found:
            heard = time.monotonic()


def _position(
    consumer: Consumer,
    wanted: OffsetRange,
    messages: Sequence[Message],
    events: Sequence[Message],
    reading: TopicReading,
) -> int:
    """The offset that is reached after these messages and events. Raises for an event that is an error.

    `wanted`: the part of the range that was not read before. Ignored are events of other partitions, left over from an
    earlier range of this consumer, and events past the end of the range, caused by reading ahead.
    """
    reached = max(wanted.start, _offset(messages[-1]) + 1 if messages else wanted.start)
    for event in events:
        error = event.error()
        code = KafkaError.UNKNOWN if error is None else error.code()
        mine = (event.topic(), event.partition()) == (wanted.topic, wanted.partition)
        if code == KafkaError._PARTITION_EOF:  # pyright: ignore[reportPrivateUsage]
            reached = max(reached, _offset(event)) if mine else reached
        elif code in _GONE:
            place = max(reached, _offset(event)) if mine else reached
            ends = not mine or place >= wanted.end
            reached = place if ends else _behind_lost(consumer, wanted, place, event, reading)
        elif code not in _PASSING:
            raise KafkaException(error)
    if not messages and not events:
        reached = max(reached, consumer.position([TopicPartition(wanted.topic, wanted.partition)])[0].offset)
    return reached


def _behind_lost(consumer: Consumer, wanted: OffsetRange, begin: int, event: Message, reading: TopicReading) -> int:
    """The offset where reading continues after the records from `begin` are lost: the oldest existing one, or the
    range's end.

    A partition leader with a shorter log reports no offset. Then no record may be lost, and reading continues at
    `begin`.
    """
    place = TopicPartition(wanted.topic, wanted.partition, begin)
    if reading.lost is LostRecords.REFUSE:
        raise _lost(wanted, str(event.error()), reading.where)
    oldest, newest = consumer.get_watermark_offsets(place, _ANSWER_SECONDS)
    if not oldest <= begin <= newest:
        place.offset = min(oldest, wanted.end) if oldest > begin else wanted.end
        _warn_of_lost(wanted, begin, place.offset, reading)
    elif _offset(event) >= 0:
        raise _lost(wanted, str(event.error()), reading.where)
    if place.offset < wanted.end:
        consumer.assign([place])
    return place.offset


def _is_cut_short(consumer: Consumer, wanted: OffsetRange, reading: TopicReading) -> bool:
    """True if the partition ends before the range does and the missing records are to be skipped. Called if none
    arrive.

    Raises KAFKA_TOPIC_RECREATED if the topic was created again: then the records that were read belong to the new
    topic, and the next epoch reads them from the oldest one.
    """
    if reading.lost is LostRecords.REFUSE:
        return False
    now = Topics(reading.clients, reading.where).find(reading.selection).topic_ids.get(wanted.topic)
    if wanted.topic_id is not None and now != wanted.topic_id:
        raise _made_anew(wanted, f"a topic of that name with the id {now}", reading.where)
    _, newest = consumer.get_watermark_offsets(TopicPartition(wanted.topic, wanted.partition), _ANSWER_SECONDS)
    if newest < wanted.end:
        _warn_of_lost(wanted, max(wanted.start, newest), wanted.end, reading)
    return newest < wanted.end


def _warn_of_lost(wanted: OffsetRange, begin: int, end: int, reading: TopicReading) -> None:
    place = f"{wanted.topic}-{wanted.partition}"
    text = "%s: from %s %s the epoch continues at %s: %s"
    _LOG.warning(text, reading.where, place, begin, end, Skip(end, end - begin), extra={"event": "RecordsLost"})


_GONE = frozenset({KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET})  # pyright: ignore[reportPrivateUsage]
_PASSING = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,  # pyright: ignore[reportPrivateUsage]
        KafkaError._TRANSPORT,  # pyright: ignore[reportPrivateUsage]
        KafkaError._RESOLVE,  # pyright: ignore[reportPrivateUsage]
        KafkaError._TIMED_OUT,  # pyright: ignore[reportPrivateUsage]
        KafkaError.GROUP_AUTHORIZATION_FAILED,  # the client looks for the coordinator of a group that nothing uses
    }
)
"""Events after which the client goes on by itself; the patience of a task is the limit."""


def _offset(message: Message) -> int:
    offset = message.offset()
    return -1 if offset is None else offset


def _size(message: Message) -> int:
    return len(message.key() or b"") + len(message.value() or b"")


# --- columns -----------------------------------------------------------------------------------------------


def _timestamps(messages: Sequence[Message], _: OffsetRange) -> pa.Array[Any]:
    return integers([message.timestamp()[1] for message in messages], pa.timestamp("ms", "UTC"))


def _timestamp_types(messages: Sequence[Message], _: OffsetRange) -> pa.Array[Any]:
    """The type of each timestamp, as in Spark's connector: -1 none, 0 create time, 1 log append time."""
    return integers([message.timestamp()[0] - 1 for message in messages], pa.int32())


def _headers(messages: Sequence[Message], _: OffsetRange) -> pa.Array[Any]:
    rows = [
        [{"key": key, "value": value} for key, value in headers] if (headers := message.headers()) else None
        for message in messages
    ]
    return pa.array(rows, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))


_COLUMNS: Mapping[str, Callable[[Sequence[Message], OffsetRange], pa.Array[Any]]] = {
    "key": lambda messages, _: binaries([message.key() for message in messages]),
    "value": lambda messages, _: binaries([message.value() for message in messages]),
    "topic": lambda messages, wanted: binaries([wanted.topic.encode()] * len(messages), pa.string()),
    "partition": lambda messages, wanted: integers([wanted.partition] * len(messages), pa.int32()),
    "offset": lambda messages, _: integers([_offset(message) for message in messages], pa.int64()),
    "timestamp": _timestamps,
    "timestampType": _timestamp_types,
    "headers": _headers,
}


# --- errors ------------------------------------------------------------------------------------------------


def _named(wanted: OffsetRange) -> str:
    return f"records {wanted.start} to {wanted.end - 1} of {wanted.topic}-{wanted.partition}"


def _lost(wanted: OffsetRange, found: str, where: str) -> TidegateError:
    return TidegateError(
        Code.KAFKA_OFFSETS_LOST,
        expected=_named(wanted),
        found=found,
        where=where,
    )


def _made_anew(wanted: OffsetRange, found: str, where: str) -> TidegateError:
    return TidegateError(
        Code.KAFKA_TOPIC_RECREATED,
        expected=f"{_named(wanted)}, topic {wanted.topic} with the id {wanted.topic_id}",
        found=found,
        where=where,
    )


def _silent(wanted: OffsetRange, patience_seconds: float, where: str) -> TidegateError:
    return TidegateError(
        Code.KAFKA_UNREACHABLE,
        expected=_named(wanted),
        found=f"nothing for {patience_seconds:.0f} s",
        where=where,
        next_step="see whether the partition has a leader, then start again: the epoch is undecided",
    )
