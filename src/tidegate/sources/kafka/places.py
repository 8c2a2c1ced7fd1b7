"""Converts the places where a Kafka source begins and ends, as a program gives them, into offsets.

The brokers are asked once, before the first epoch. The offsets are then stored in *start* and do not change any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from tidegate.core.errors import Code, TidegateError
from tidegate.sources.kafka.offsets import Bounds, OffsetOf, Offsets, Partition, Skip
from tidegate.sources.kafka.source import BrokerLooks, LostRecords, TopicReading, numbers_of, warn_of_lost
from tidegate.sources.kafka.topics import FoundPartitions, PartitionEnd, spelt

Spot: TypeAlias = int | Literal["earliest", "latest"] | datetime
"""A place in one partition: an offset, its oldest record, behind its newest record, or its first record that is not
older than a time."""

TopicPlace: TypeAlias = Literal["earliest", "latest", "group"] | datetime | Mapping[str, Mapping[int, Spot]]
"""A place in every partition: the oldest record, behind the newest, the committed offsets of a consumer group (the
oldest record if the group has committed none), a time, or a `Spot` for each partition of each topic."""


def resolve(reading: TopicReading, topics: BrokerLooks, start: TopicPlace, stop: TopicPlace | None) -> Bounds:
    """The offsets where the source begins and ends.

    Called once; the result is stored in *start* and does not change.
    """
    found = topics.find(reading.selection)
    places = _PlaceReader(reading, topics, found)
    begin = places.offsets(start, "start")
    end = None if stop is None else places.offsets(stop, "stop")
    places.require_order(begin, end or {})
    return Bounds(Offsets(begin, found.topic_ids), end)


_SAY_WHERE = "say with start= where it should begin"


@dataclass(frozen=True, slots=True)
class _PlaceReader:
    """Converts the value of `start=` or `stop=` of a Kafka source into an offset for each partition.

    `found`: the partitions of the topics that the program selects, as the brokers listed them.
    """

    reading: TopicReading
    topics: BrokerLooks
    found: FoundPartitions

    def offsets(self, place: TopicPlace, option: str) -> OffsetOf:
        match place:
            case "earliest":
                return self.topics.at(self.found.partitions, PartitionEnd.EARLIEST)
            case "latest":
                return self.topics.at(self.found.partitions, PartitionEnd.LATEST)
            case "group":
                return self._committed()
            case datetime():
                return self.topics.at_time(self.found.partitions, int(place.timestamp() * 1000))
            case _:
                return self._named(place, option)

    def _committed(self) -> OffsetOf:
        """The offsets that the consumer group has committed.

        A partition without a committed offset begins at its oldest record, because the group has not read it.
        """
        committed = self.topics.committed(self.found.partitions, self.reading.group or "")
        oldest = self.topics.at(self.found.partitions, PartitionEnd.EARLIEST)
        if self.reading.lost is LostRecords.SKIP:
            gone = {each: Skip(oldest[each], oldest[each] - at) for each, at in committed.items() if at < oldest[each]}
            warn_of_lost(self.reading, committed, gone)
            committed = {**committed, **{each: skip.to for each, skip in gone.items()}}
        self._require_kept(committed)
        return {**oldest, **committed}

    def require_order(self, begin: OffsetOf, end: OffsetOf) -> None:
        """Raise if the source would end before it begins, so that it would read nothing."""
        before = {each for each, offset in end.items() if offset < begin[each]}
        if before:
            raise self._refused(
                f"stop= at or behind start=, which is {numbers_of(begin, before)}",
                f"stop= at {numbers_of(end, before)}",
                "say with stop= where it should end; without it, it reads on",
            )

    def _named(self, place: Mapping[str, Mapping[int, Spot]], option: str) -> OffsetOf:
        spots: dict[Partition, Spot] = {
            (topic, int(number)): spot for topic, each in place.items() for number, spot in each.items()
        }
        if spots.keys() != self.found.partitions:
            raise self._refused(
                f"{option}= with a place for each of {spelt(self.found.partitions)}",
                f"places for {spelt(spots.keys()) or 'none'}",
            )
        named = self._offsets_of(spots)
        if option == "start":
            self._require_kept(named)
        return named

    def _offsets_of(self, spots: Mapping[Partition, Spot]) -> OffsetOf:
        """An offset for each spot. Spots of one kind are looked up with one request."""
        offsets = {each: spot for each, spot in spots.items() if isinstance(spot, int)}
        for mark in PartitionEnd:
            offsets |= self.topics.at(frozenset(each for each, spot in spots.items() if spot == mark.value), mark)
        for moment in {spot for spot in spots.values() if isinstance(spot, datetime)}:
            since = frozenset(each for each, spot in spots.items() if spot == moment)
            offsets |= self.topics.at_time(since, int(moment.timestamp() * 1000))
        return offsets

    def _require_kept(self, start: OffsetOf) -> None:
        oldest = self.topics.at(frozenset(start), PartitionEnd.EARLIEST)
        newest = self.topics.at(frozenset(start), PartitionEnd.LATEST)
        outside = {each for each, offset in start.items() if not oldest[each] <= offset <= newest[each]}
        if outside:
            raise self._refused(
                f"a start between {numbers_of(oldest, outside)} and {numbers_of(newest, outside)}",
                numbers_of(start, outside),
            )

    def _refused(self, expected: str, found: str, next_step: str = _SAY_WHERE) -> TidegateError:
        return TidegateError(
            Code.SOURCE_OPTION,
            expected=expected,
            found=found,
            where=self.reading.where,
            next_step=next_step,
        )
