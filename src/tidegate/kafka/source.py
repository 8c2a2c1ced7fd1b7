"""Where a Kafka source begins, where each of its epochs ends, and what must not have happened to its topics.

The end of an epoch is the last stable offset of each partition, or less: a limit, a bound. Whatever the topics did
since the last epoch is looked at before an end is given: an end that Spark has written down cannot be taken back.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

from tidegate.core.errors import Code, TidegateError
from tidegate.kafka.clients import Clients
from tidegate.kafka.offsets import Bounds, OffsetOf, Offsets, Pace, Partition, cap, rows_between, share_out
from tidegate.kafka.topics import Found, Mark, Selection, spelt

_LOG = logging.getLogger("tidegate")

Place: TypeAlias = Literal["earliest", "latest", "group"] | datetime | Mapping[str, Mapping[int, int]]
"""A place in every partition: the oldest record, behind the newest, what a consumer group has committed (the oldest
record where it has not), a time, or offsets by topic and partition."""

ANSWER_KEPT_SECONDS = 0.05
"""Spark asks an idle source every 10 to 20 ms; the brokers are asked this seldom."""
LOOK_FOR_PARTITIONS_SECONDS = 10.0
"""So often the brokers are asked for new partitions and topics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a Kafka source reads, as its processes need it.

    `interval_seconds`: epochs adapt to end within it; with 0 they do not. `group`: whose offsets "group" means.
    """

    clients: Clients
    selection: Selection
    where: str
    headers: bool = False
    max_rows: int | None = None
    max_bytes: int | None = None
    interval_seconds: float = 0.0
    group: str | None = None


class Asked(Protocol):
    """What is asked of the brokers: see `tidegate.kafka.topics.Topics`."""

    def find(self, selection: Selection) -> Found: ...

    def at(self, partitions: frozenset[Partition], mark: Mark) -> OffsetOf: ...

    def at_time(self, partitions: frozenset[Partition], milliseconds: int) -> OffsetOf: ...

    def committed(self, partitions: frozenset[Partition], group: str) -> OffsetOf: ...


def resolve(reading: Reading, topics: Asked, start: Place, stop: Place | None) -> Bounds:
    """Where the source begins and ends, in numbers: asked once, then it stands in *start* and moves no more."""
    found = topics.find(reading.selection)
    places = _Places(reading, topics, found)
    begin = places.offsets(start, "start")
    end = None if stop is None else places.offsets(stop, "stop")
    return Bounds(Offsets(begin, found.topic_ids), end)


class EndFinder:
    """Where the next epoch ends. One for each started query, in the process that Spark keeps for its source."""

    def __init__(
        self,
        reading: Reading,
        topics: Asked,
        stop: OffsetOf | None,
        row_bytes: Callable[[Partition, int, int], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`row_bytes` gives the mean size of the records of a partition, from an offset on and below another."""
        self._reading = reading
        self._topics = topics
        self._stop = stop
        self._row_bytes = row_bytes
        self._clock = clock
        self._found: Found | None = None
        self._found_at = 0.0
        self._idle: Offsets | None = None
        self._idle_at = 0.0
        self._target: OffsetOf | None = None
        self._pace = Pace.first(reading.interval_seconds)
        self._given: tuple[Offsets, int, float] | None = None

    def catch_up(self) -> None:
        """From now on nothing beyond what the topics hold now is given: a run that ends when it has caught up."""
        self._found, self._found_at = self._topics.find(self._reading.selection), self._clock()
        self._target = self._topics.at(self._found.partitions, Mark.LATEST)

    def after(self, start: Offsets) -> Offsets:
        """The end of the epoch that begins at `start`; `start` itself while there is nothing new.

        Raises KAFKA_TOPIC_RECREATED, KAFKA_TOPIC_MISSING or KAFKA_OFFSETS_LOST, with the numbers. Brokers that do not
        answer are waited for once they have answered, and not by a run that ends when it has caught up.
        """
        self._learn(start)
        try:
            return self._end(start)
        except TidegateError as error:
            waits = self._found is not None and self._target is None
            if error.catalogue_entry is not Code.KAFKA_UNREACHABLE or not waits:
                raise
            _LOG.warning("%s: waiting for the brokers (%s)", self._reading.where, error.found)
            return start

    def _end(self, start: Offsets) -> Offsets:
        now = self._clock()
        if start == self._idle and now - self._idle_at < ANSWER_KEPT_SECONDS:
            return start
        if self._found is None or now - self._found_at >= LOOK_FOR_PARTITIONS_SECONDS:
            self._look()
        ends = self._ends(start)
        if ends == start.next:
            self._idle, self._idle_at = start, now
            return start
        self._check(start)
        limited = self._limited(start, ends)
        topic_ids = {topic: self._known().topic_ids[topic] for topic in sorted({topic for topic, _ in limited})}
        end = Offsets(limited, topic_ids)
        self._given = (end, rows_between(start, end), self._clock())
        return end

    def _learn(self, start: Offsets) -> None:
        """Spark asks for the end after `start`, so the epoch that ended there is through."""
        if self._given is not None and self._given[0] == start:
            _, rows, given_at = self._given
            self._pace = self._pace.after(rows, self._clock() - given_at)
            self._given = None

    def _look(self) -> None:
        self._found, self._found_at = self._topics.find(self._reading.selection), self._clock()

    def _known(self) -> Found:
        if self._found is None:
            self._look()
        return self._found or Found(frozenset(), {})

    def _ends(self, start: Offsets) -> OffsetOf:
        """Where every known partition ends now, at most where the run or the source ends.

        A partition that `start` does not name begins with this epoch, at its oldest record, and is read from the next.
        """
        known = self._known()
        gone = start.next.keys() - known.partitions
        if gone:
            raise self._error(
                Code.KAFKA_TOPIC_MISSING, f"the records from {_numbers(start.next, gone)} on", "no partition"
            )
        old = frozenset(start.next)
        ends = self._topics.at(old, Mark.LATEST)
        back = {each for each in old if ends[each] < start.next[each]}
        if back:
            self._check(start)
            expected = f"the records from {_numbers(start.next, back)} on"
            raise self._error(Code.KAFKA_OFFSETS_LOST, expected, f"the topic ends at {_numbers(ends, back)}")
        for bound in (self._target, self._stop):
            ends = {each: max(start.next[each], offset) for each, offset in _capped(ends, bound, start.next).items()}
        return {**ends, **self._beginnings(known.partitions - old)}

    def _beginnings(self, new: frozenset[Partition]) -> OffsetOf:
        for bound in (self._target, self._stop):
            new = new if bound is None else new & bound.keys()
        return self._topics.at(new, Mark.EARLIEST) if new else {}

    def _check(self, start: Offsets) -> None:
        """What Spark would not notice: another topic under the old name, records that went before they were read."""
        self._look()
        for topic, topic_id in self._known().topic_ids.items():
            before = start.topic_ids.get(topic, topic_id)
            if before != topic_id:
                mine = {each for each in start.next if each[0] == topic}
                raise self._error(
                    Code.KAFKA_TOPIC_RECREATED,
                    f"topic {topic} with the id {before}, read up to {_numbers(start.next, mine)}",
                    f"a topic of that name with the id {topic_id}",
                )
        oldest = self._topics.at(frozenset(start.next), Mark.EARLIEST)
        lost = {each for each, offset in start.next.items() if oldest[each] > offset}
        if lost:
            count = sum(oldest[each] - start.next[each] for each in lost)
            raise self._error(
                Code.KAFKA_OFFSETS_LOST,
                f"the records from {_numbers(start.next, lost)} on",
                f"the oldest that are kept: {_numbers(oldest, lost)}; {count} offsets are gone",
            )

    def _limited(self, start: Offsets, ends: OffsetOf) -> OffsetOf:
        limits = [
            limit for limit in (self._reading.max_rows, self._pace.rows, self._rows_in_bytes(start, ends)) if limit
        ]
        return share_out(start.next, ends, min(limits)) if limits else ends

    def _rows_in_bytes(self, start: Offsets, ends: OffsetOf) -> int | None:
        """How many rows `max_bytes` are, by the mean size of the next records where most of them wait."""
        if self._reading.max_bytes is None:
            return None
        most = max(start.next, key=lambda each: ends[each] - start.next[each], default=None)
        if most is None or ends[most] <= start.next[most]:
            return None
        return max(1, int(self._reading.max_bytes / max(1.0, self._row_bytes(most, start.next[most], ends[most]))))

    def _error(self, code: Code, expected: str, found: str) -> TidegateError:
        return TidegateError(
            code,
            expected=expected,
            found=found,
            where=f"{self._reading.where}, {self._reading.clients.servers}",
            next_step=_NEXT_STEPS[code],
        )


_NEXT_STEPS: Mapping[Code, str] = {
    Code.KAFKA_TOPIC_MISSING: "bring the topic back from a copy with its offsets; or read it under another job name",
    Code.KAFKA_TOPIC_RECREATED: "read the new topic under another job name, with start= where it should begin",
    Code.KAFKA_OFFSETS_LOST: "they cannot come back: keep records longer (retention.ms), and go on under"
    " another job name with start= where it should begin",
}


@dataclass(frozen=True, slots=True)
class _Places:
    """Turns a place as the program says it into an offset of every partition that was found."""

    reading: Reading
    topics: Asked
    found: Found

    def offsets(self, place: Place, option: str) -> OffsetOf:
        match place:
            case "earliest":
                return self.topics.at(self.found.partitions, Mark.EARLIEST)
            case "latest":
                return self.topics.at(self.found.partitions, Mark.LATEST)
            case "group":
                return self._committed()
            case datetime():
                return self.topics.at_time(self.found.partitions, int(place.timestamp() * 1000))
            case _:
                return self._named(place, option)

    def _committed(self) -> OffsetOf:
        """A partition that the group has no offset for begins at its oldest record: nothing of it was ever read."""
        committed = self.topics.committed(self.found.partitions, self.reading.group or "")
        self._require_kept(committed)
        return {**self.topics.at(self.found.partitions - committed.keys(), Mark.EARLIEST), **committed}

    def _named(self, place: Mapping[str, Mapping[int, int]], option: str) -> OffsetOf:
        named = {(topic, int(number)): offset for topic, each in place.items() for number, offset in each.items()}
        if named.keys() != self.found.partitions:
            raise self._refused(
                f"{option}= with an offset for each of {spelt(self.found.partitions)}",
                f"offsets for {spelt(named.keys()) or 'none'}",
            )
        if option == "start":
            self._require_kept(named)
        return named

    def _require_kept(self, start: OffsetOf) -> None:
        oldest = self.topics.at(frozenset(start), Mark.EARLIEST)
        newest = self.topics.at(frozenset(start), Mark.LATEST)
        outside = {each for each, offset in start.items() if not oldest[each] <= offset <= newest[each]}
        if outside:
            raise self._refused(
                f"a start between {_numbers(oldest, outside)} and {_numbers(newest, outside)}",
                _numbers(start, outside),
            )

    def _refused(self, expected: str, found: str) -> TidegateError:
        return TidegateError(
            Code.SOURCE_OPTION,
            expected=expected,
            found=found,
            where=self.reading.where,
            next_step="say with start= where it should begin",
        )


def _capped(ends: OffsetOf, bound: OffsetOf | None, start: OffsetOf) -> OffsetOf:
    """`ends` up to a bound; a partition that the bound does not name stays where it is."""
    return {**{each: start[each] for each in ends}, **cap(ends, bound)}


def _numbers(offsets: OffsetOf, partitions: set[Partition]) -> str:
    return ", ".join(f"{topic}-{number} {offsets[topic, number]}" for topic, number in sorted(partitions))
