"""Offsets of topics as values: what stands in a checkpoint, what an epoch reads, and what may follow what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import msgspec

from tidegate.core.spark_log import SKIPPED, TOPIC_IDS

Partition: TypeAlias = tuple[str, int]
"""A topic's name and the number of one of its partitions."""

OffsetOf: TypeAlias = Mapping[Partition, int]


@dataclass(frozen=True, slots=True)
class Skip:
    """What an epoch leaves out of a partition because it is lost: the epoch reads from the offset `to` on.

    At most `records` were lost, as a compacted or transactional topic has fewer; None where nobody knows.
    """

    to: int
    records: int | None

    def __str__(self) -> str:
        return "nobody knows how many records are lost" if self.records is None else f"{self.records} records are lost"


@dataclass(frozen=True, slots=True)
class Offsets:
    """For each partition the offset of the next record to read, and the id of each topic.

    In a checkpoint, readable and with one spelling only (Spark compares texts):
    `{"lines": {"0": 17, "1": 4}, "topic ids": {"lines": "ZHJv..."}}`.
    The end of an epoch that leaves lost records out says so, and only that end, so that a replay reads the same:
    `"skipped records": {"lines": {"0": {"to": 7, "records": 2}}}`.
    """

    next: OffsetOf
    topic_ids: Mapping[str, str] = field(default_factory=dict[str, str])
    skipped: Mapping[Partition, Skip] = field(default_factory=dict[Partition, Skip])

    def to_json(self) -> dict[str, Any]:
        """The offsets as a JSON object."""
        skipped = {each: {"to": skip.to, "records": skip.records} for each, skip in self.skipped.items()}
        return {
            **_by_topic(self.next),
            TOPIC_IDS: dict(sorted(self.topic_ids.items())),
            **({SKIPPED: _by_topic(skipped)} if skipped else {}),
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Offsets:
        """The offsets in what `to_json` gave."""
        return Offsets(
            _by_partition({name: found for name, found in value.items() if name not in (TOPIC_IDS, SKIPPED)}),
            dict(value.get(TOPIC_IDS, {})),
            {each: Skip(**skip) for each, skip in _by_partition(value.get(SKIPPED, {})).items()},
        )


def _by_topic(values: Mapping[Partition, Any]) -> dict[str, dict[str, Any]]:
    topics: dict[str, dict[str, Any]] = {}
    for (topic, partition), value in sorted(values.items()):
        topics.setdefault(topic, {})[str(partition)] = value
    return topics


def _by_partition(topics: Mapping[str, Any]) -> dict[Partition, Any]:
    return {
        (topic, int(number)): value
        for topic, found in topics.items()
        for number, value in cast("dict[str, Any]", found).items()
    }


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where a source begins and, when it is bounded, ends: recorded once, before Spark starts."""

    start: Offsets
    stop: OffsetOf | None = None

    def to_text(self) -> str:
        """The bounds as *start* keeps them."""
        stop = {} if self.stop is None else {"stop": Offsets(self.stop).to_json()}
        return msgspec.json.encode({"start": self.start.to_json(), **stop}).decode()

    @staticmethod
    def from_text(text: str) -> Bounds:
        """The bounds in what `to_text` gave."""
        value = msgspec.json.decode(text, type=dict[str, dict[str, Any]])
        stop = value.get("stop")
        return Bounds(Offsets.from_json(value["start"]), None if stop is None else Offsets.from_json(stop).next)


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """What one task reads: the records of a partition from `start` up to, not including, `end`.

    `topic_id`: of which topic, where there was another one of that name.
    """

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str | None = field(default=None, compare=False)


def ranges(start: Offsets, end: Offsets) -> list[OffsetRange]:
    """What an epoch reads between two positions.

    A partition that only `end` names was found in this epoch: it stands there with the offset it begins at, and the
    next epoch reads from it. So a replay reads the same. An epoch without news has one position at both ends, also
    when that says what an earlier one skipped.
    """
    if start == end:
        return []
    begin = {**end.next, **start.next, **{each: skip.to for each, skip in end.skipped.items()}}
    return [
        OffsetRange(topic, partition, begin[topic, partition], offset, end.topic_ids.get(topic))
        for (topic, partition), offset in sorted(end.next.items())
        if begin[topic, partition] < offset
    ]


def rows_between(start: Offsets, end: Offsets) -> int:
    """At most so many rows are between two positions; a compacted or transactional topic has fewer."""
    return sum(each.end - each.start for each in ranges(start, end))


def cap(ends: OffsetOf, at_most: OffsetOf | None) -> OffsetOf:
    """`ends`, none beyond `at_most`; a partition that has no entry there is left out."""
    if at_most is None:
        return ends
    return {partition: min(offset, at_most[partition]) for partition, offset in ends.items() if partition in at_most}


def share_out(start: OffsetOf, ends: OffsetOf, rows: int) -> OffsetOf:
    """Ends that are at most `rows` beyond `start`, shared among partitions by what each has waiting.

    At least one row goes ahead, so that a small limit never stops a source.
    """
    waiting = {partition: end - start[partition] for partition, end in ends.items() if end > start.get(partition, end)}
    total = sum(waiting.values())
    if total <= rows:
        return ends
    limit = max(rows, 1)
    shares = {partition: count * limit // total for partition, count in waiting.items()}
    left = limit - sum(shares.values())
    for partition in sorted(waiting, key=lambda each: (-waiting[each], each))[:left]:
        shares[partition] += 1
    return {
        partition: start[partition] + shares[partition] if partition in shares else ends[partition]
        for partition in ends
    }
