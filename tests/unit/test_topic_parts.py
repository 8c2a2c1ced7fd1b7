"""Positions in a channel over Kafka: the offset of a row, the end of a generation, and the end of an epoch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import pytest

from tidegate.channels.kafka import KafkaChannel, KafkaChannelSink
from tidegate.channels.topic_parts import TopicParts
from tidegate.core.channel_parts import LiveParts, is_behind
from tidegate.core.records import ChannelBegin, SinkIdentity
from tidegate.sources.kafka.offsets import OffsetRange
from tidegate.storages.schemes import Folder


def begun(generation: int, topic_id: str = "id", **offsets: int) -> ChannelBegin:
    by_partition = {number.removeprefix("p"): offset for number, offset in offsets.items()}
    return ChannelBegin(generation=generation, topic="words", topic_id=topic_id, offsets=by_partition)


def parts(*begins: ChannelBegin) -> TopicParts:
    return TopicParts("words", {each.generation: each for each in begins})


def test_rows_are_numbered_from_where_their_generation_begins() -> None:
    found = parts(begun(1, p0=10, p1=20))
    assert found.position({0: 13, 1: 20}) == {"words.1.0": 3}
    assert found.ranges({}, {"words.1.0": 3}) == [OffsetRange("words", 0, 10, 13)]
    assert found.ranges({"words.1.0": 2}, {"words.1.0": 3, "words.1.1": 1}) == [
        OffsetRange("words", 0, 12, 13),
        OffsetRange("words", 1, 20, 21),
    ]


def test_a_generation_ends_where_the_next_one_begins() -> None:
    found = parts(begun(1, p0=10), begun(3, p0=15))
    assert found.position({0: 17}) == {"words.1.0": 5, "words.3.0": 2}
    assert found.ranges({"words.1.0": 3}, {"words.1.0": 5, "words.3.0": 2}) == [
        OffsetRange("words", 0, 13, 15),
        OffsetRange("words", 0, 15, 17),
    ]


def test_a_generation_in_another_topic_leaves_the_end_of_the_older_one_open() -> None:
    assert parts(begun(1, p0=10), begun(2, "another", p0=4)).position({0: 5}) == {"words.2.0": 1}


def test_a_partition_that_is_added_later_belongs_to_the_generation_from_its_first_record() -> None:
    found = parts(begun(1, p0=10))
    assert found.position({0: 10, 1: 2}) == {"words.1.1": 2}
    assert is_behind({"words.1.0": 0}, "words.1.1"), "a reader that stood before it was there reads it too"
    assert LiveParts().unread({"words.1.0": 0}, {"words.1.1": 2}) == 2
    later = parts(begun(1, p0=10), begun(2, p0=10, p1=2))
    assert later.position({0: 10, 1: 2}) == {"words.1.1": 2}, "its rows stay those of the generation that wrote them"


# --- the end of an epoch -----------------------------------------------------------------------------------


class Watermarks:
    """A topic as one driver sees it: it answers with the ends of the only partition."""

    newest_generation = 1

    def __init__(self, at: Mapping[str, int]) -> None:
        self._at = at

    def stand(self, generation: int) -> Mapping[str, int]:
        return parts(begun(1, p0=10)).position({0: self._at["high watermark"]})

    def readable(self) -> Mapping[str, int]:
        return parts(begun(1, p0=10)).position({0: self._at["last stable offset"]})


@pytest.fixture
def topic() -> dict[str, int]:
    return {"high watermark": 10, "last stable offset": 10}


def driver(folder: Path, topic: Mapping[str, int]) -> KafkaChannelSink:
    """The channel in the process of a driver."""
    channel = KafkaChannelSink("words", Folder.of(folder / "words"), KafkaChannel("nowhere:9092", "words"))
    channel._claimed_at = math.inf  # pyright: ignore[reportPrivateUsage]
    channel._topic = Watermarks(topic)  # pyright: ignore[reportAttributeAccessIssue, reportPrivateUsage]
    return channel


WRITER = SinkIdentity(job="job", job_id="1", generation=1, query="write", sink="words")


def test_the_end_of_an_epoch_is_the_same_for_every_driver(tmp_path: Path, topic: dict[str, int]) -> None:
    """The successor has noted the end of epoch 5, and its epoch 6 has rows in the topic, when the other one looks."""
    paused, successor = driver(tmp_path, topic), driver(tmp_path, topic)
    topic["high watermark"] = 15
    successor.stand(WRITER, 5)
    topic["high watermark"] = 18
    paused.stand(WRITER, 5)
    assert paused.log.ends == successor.log.ends == {"words.1.0": 5}


def test_a_driver_that_was_paused_learns_that_a_later_epoch_is_done(tmp_path: Path, topic: dict[str, int]) -> None:
    paused, successor = driver(tmp_path, topic), driver(tmp_path, topic)
    for epoch, high_watermark in ((5, 15), (6, 18)):
        topic["high watermark"] = high_watermark
        successor.stand(WRITER, epoch)
    paused.stand(WRITER, 5)
    found = paused.log.position("write")
    assert found is not None
    assert (found.generation, found.epoch) == (1, 6), "so its query does not take part with epoch 5"


def test_an_epoch_is_noted_once(tmp_path: Path, topic: dict[str, int]) -> None:
    channel = driver(tmp_path, topic)
    for _ in range(3):
        topic["high watermark"] += 1
        channel.stand(WRITER, 5)
    assert channel.log.ends == {"words.1.0": 1}
    assert [path.name for path in sorted((tmp_path / "words" / "epochs").iterdir())] == ["000000000000"]


def test_no_reader_reads_on_to_markers_that_come_behind_the_recorded_end(tmp_path: Path, topic: dict[str, int]) -> None:
    """The broker has answered the commit before it writes the marker. A reader that stood behind it would be ahead of
    the barrier until the writer has another epoch.
    """
    channel = driver(tmp_path, topic)
    topic["high watermark"] = 15
    channel.stand(WRITER, 5)
    assert channel.readable() == {}, "the transaction has no marker yet"
    topic["high watermark"] = topic["last stable offset"] = 16
    assert channel.readable() == channel.settled() == channel.log.ends == {"words.1.0": 5}
    channel.stand(WRITER, 6)
    assert channel.readable() == {"words.1.0": 6}
