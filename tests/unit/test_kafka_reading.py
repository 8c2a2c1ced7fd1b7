"""How a task reads a range through a consumer that earlier ranges have used: what those left behind is not its own.

The consumer gives what a real one gave in such cases; when they happen is a matter of milliseconds.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest
from confluent_kafka import KafkaError, Message, TopicPartition

from tests.support.logged import told
from tidegate.core.errors import TidegateError
from tidegate.kafka.clients import Clients
from tidegate.sources.kafka.offsets import OffsetRange
from tidegate.sources.kafka.reading import messages_in
from tidegate.sources.kafka.source import LostRecords, TopicReading
from tidegate.sources.kafka.topics import TopicSelection

BOTH = pytest.mark.parametrize("lost", LostRecords)


class Scripted:
    """A consumer that gives these messages, a list for each call, and knows what a partition holds."""

    def __init__(self, *given: list[Message], holds: tuple[int, int] = (0, 0)) -> None:
        self._given = list(given)
        self._holds = holds
        self.assigned: list[int] = []

    def consume(self, _: int, timeout: float) -> list[Message]:
        return self._given.pop(0) if timeout > 0 and self._given else []

    def position(self, places: Sequence[TopicPartition]) -> list[TopicPartition]:
        return list(places)

    def get_watermark_offsets(self, _: TopicPartition, __: float) -> tuple[int, int]:
        return self._holds

    def assign(self, places: Sequence[TopicPartition]) -> None:
        self.assigned += [place.offset for place in places]


def rows(topic: str, start: int, end: int) -> list[Message]:
    return [Message(topic=topic, partition=0, offset=offset, value=b"v") for offset in range(start, end)]


def reset(topic: str, offset: int | None) -> Message:
    error = KafkaError(KafkaError._AUTO_OFFSET_RESET)  # pyright: ignore[reportPrivateUsage]
    if offset is None:
        return Message(topic=topic, partition=0, error=error)
    return Message(topic=topic, partition=0, offset=offset, error=error)


def offsets_read(consumer: Scripted, wanted: OffsetRange, lost: LostRecords) -> list[int | None]:
    reading = TopicReading(
        clients=Clients("none:1"), selection=TopicSelection(("a",), None, {}), where="source s", lost=lost
    )
    found = messages_in(consumer, wanted, 60.0, reading)  # pyright: ignore[reportArgumentType]
    return [message.offset() for some in found for message in some]


@BOTH
def test_a_loss_in_the_partition_that_was_read_before_is_not_ours(
    lost: LostRecords, caplog: pytest.LogCaptureFixture
) -> None:
    """What had been fetched ahead of the earlier range is gone; its event waited in the consumer's queue."""
    consumer = Scripted([reset("a", 150)], rows("q", 5, 60), holds=(0, 60))
    assert offsets_read(consumer, OffsetRange("q", 0, 5, 60), lost) == list(range(5, 60))
    assert consumer.assigned == []
    assert told(caplog) == []


@BOTH
def test_a_loss_behind_a_range_that_was_read_whole_is_not_its_own(
    lost: LostRecords, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "tidegate")
    consumer = Scripted([*rows("a", 98, 101), *rows("a", 149, 150), reset("a", 150)], holds=(200, 300))
    assert offsets_read(consumer, OffsetRange("a", 0, 98, 100), lost) == [98, 99]
    assert told(caplog) == []


def test_a_loss_in_the_range_is_refused_or_passed_over_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    def lost_from_60() -> Scripted:
        return Scripted([*rows("a", 50, 60), reset("a", 60)], rows("a", 70, 80), holds=(70, 90))

    with pytest.raises(TidegateError) as refused:
        offsets_read(lost_from_60(), OffsetRange("a", 0, 50, 80), LostRecords.REFUSE)
    assert refused.value.code == "TG-KAFKA-OFFSETS-LOST"
    consumer = lost_from_60()
    assert offsets_read(consumer, OffsetRange("a", 0, 50, 80), LostRecords.SKIP) == [*range(50, 60), *range(70, 80)]
    assert consumer.assigned == [70]
    assert "from a-0 60 the epoch continues at 70: 10 records are lost" in caplog.text


def test_an_event_that_names_no_offset_repeats_no_row() -> None:
    """A leader of a later epoch knows a shorter log: the client tells of it without saying where."""
    consumer = Scripted(rows("a", 50, 80), [reset("a", None)], rows("a", 80, 100), holds=(60, 120))
    assert offsets_read(consumer, OffsetRange("a", 0, 50, 100), LostRecords.SKIP) == list(range(50, 100))
    assert consumer.assigned == [80]
