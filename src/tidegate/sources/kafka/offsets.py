"""Offsets of topics as values: positions in a checkpoint, and the ranges that an epoch and its tasks read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import msgspec

from tidegate.core.json_formats import parsed
from tidegate.core.spark_log import SKIPPED, TOPIC_IDS
from tidegate.sources.sharing import shared_whole

Partition: TypeAlias = tuple[str, int]
"""A topic's name and the number of one of its partitions."""

OffsetOf: TypeAlias = Mapping[Partition, int]


@dataclass(frozen=True, slots=True)
class Skip:
    """Lost records of one partition that an epoch skips: the epoch reads from offset `to`.

    `records`: at most so many records were lost (compacted and transactional topics have fewer); None if not known.
    """

    to: int
    records: int | None

    def __str__(self) -> str:
        return (
            "it is not known how many records are lost" if self.records is None else f"{self.records} records are lost"
        )


@dataclass(frozen=True, slots=True)
class Offsets:
    """For each partition the offset of the next record to read, and the id of each topic.

    In a checkpoint it is readable JSON in one fixed form, because Spark compares the texts: `{"lines": {"0": 17, "1":
    4}, "topic ids": {"lines": "ZHJv..."}}`. If an epoch skips lost records, its end offsets say so, and a replay skips
    the same ones: `"skipped records": {"lines": {"0": {"to": 7, "records": 2}}}`.
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
        """The offsets from a JSON object that `to_json` returned."""
        return Offsets(
            _by_partition({name: found for name, found in value.items() if name not in (TOPIC_IDS, SKIPPED)}),
            dict(value.get(TOPIC_IDS, {})),
            {each: Skip(**skip) for each, skip in _by_partition(value.get(SKIPPED, {})).items()},
        )


def least(positions: Sequence[Offsets]) -> Offsets:
    """What is before all of these positions. A partition that one of them does not know has nothing before it."""
    known = [partition for partition in positions[0].next if all(partition in each.next for each in positions)]
    return Offsets(
        {partition: min(each.next[partition] for each in positions) for partition in known},
        {topic: found for each in positions for topic, found in each.topic_ids.items()},
        {partition: skip for each in positions for partition, skip in each.skipped.items()},
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
    """The offsets where a source begins and, if it is bounded, ends. Recorded once, before Spark starts."""

    start: Offsets
    stop: OffsetOf | None = None

    def to_text(self) -> str:
        """The bounds as text, as the file *start* in the checkpoint holds them."""
        stop = {} if self.stop is None else {"stop": Offsets(self.stop).to_json()}
        return msgspec.json.encode({"start": self.start.to_json(), **stop}).decode()

    @staticmethod
    def from_text(text: str) -> Bounds:
        """The bounds from a text that `to_text` returned."""
        value = parsed(text, dict[str, dict[str, Any]])
        stop = value.get("stop")
        return Bounds(Offsets.from_json(value["start"]), None if stop is None else Offsets.from_json(stop).next)


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Records that a task reads: those of a partition from offset `start` up to, but not including, `end`.

    `topic_id`: the id of the topic; None if it is not known. A topic that was created again has another id.
    """

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str | None = field(default=None, compare=False)


def ranges(start: Offsets, end: Offsets) -> list[OffsetRange]:
    """The ranges that an epoch between two positions reads.

    A partition that is only in `end` was discovered in this epoch. Its offset in `end` is where it begins, and the next
    epoch reads from there. So a replay reads the same. An epoch without new records has equal positions at both ends.
    """
    if start == end:
        return []
    begin = {**end.next, **start.next, **{each: skip.to for each, skip in end.skipped.items()}}
    return [
        OffsetRange(topic, partition, begin[topic, partition], offset, end.topic_ids.get(topic))
        for (topic, partition), offset in sorted(end.next.items())
        if begin[topic, partition] < offset
    ]


TASKS_PER_CORE = 4
ROWS_OF_A_TASK = 1_000
"""A task with fewer rows costs more for itself than for its rows: 20 ms of CPU time, and a sink's transaction."""


def shared_by_tasks(wanted: Sequence[OffsetRange], cores: int) -> list[tuple[OffsetRange, ...]]:
    """The ranges that each task of an epoch reads, one after another; the rows are shared as evenly as whole partitions
    allow. Ranges of the same partition are read by one task, in the order of `wanted`.

    There is a task for each partition while there are no more partitions than `cores`, so that a slow function in the
    query still runs on all of them. Beyond that each task has 1,000 rows or more, and a core at most four tasks.
    """
    partitions: dict[Partition, list[OffsetRange]] = {}
    for each in wanted:
        partitions.setdefault((each.topic, each.partition), []).append(each)
    most = max(cores, min(_rows(wanted) // ROWS_OF_A_TASK, TASKS_PER_CORE * cores))
    tasks = shared_whole(list(partitions), lambda each: _rows(partitions[each]), most)
    return [tuple(found for each in sorted(task) for found in partitions[each]) for task in tasks]


def _rows(wanted: Sequence[OffsetRange]) -> int:
    return sum(each.end - each.start for each in wanted)


def rows_between(start: Offsets, end: Offsets) -> int:
    """The largest possible number of rows between two positions. Compacted and transactional topics have fewer."""
    return _rows(ranges(start, end))


def cap(ends: OffsetOf, at_most: OffsetOf | None) -> OffsetOf:
    """`ends`, limited to the offsets in `at_most`. A partition without an entry there is left out. None: no limit."""
    if at_most is None:
        return ends
    return {partition: min(offset, at_most[partition]) for partition, offset in ends.items() if partition in at_most}


def share_out(start: OffsetOf, ends: OffsetOf, rows: int) -> OffsetOf:
    """End offsets so that the epoch has at most `rows` rows, shared among partitions in proportion to their waiting
    rows.

    At least one row is read, so that a small limit never stops a source.
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
