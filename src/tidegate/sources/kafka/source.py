"""Where a Kafka source begins, where each of its epochs ends, and what must not have happened to its topics.

The end of an epoch is the last stable offset of each partition, or less: a limit, a bound. Whatever the topics did
since the last epoch is looked at before an end is given: an end that Spark has written down cannot be taken back.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from tidegate.checkpoints.tempo import Tempo
from tidegate.core.errors import Code, TidegateError
from tidegate.kafka.clients import Clients
from tidegate.sources.kafka.offsets import (
    OffsetOf,
    OffsetRange,
    Offsets,
    Partition,
    Skip,
    cap,
    ranges,
    rows_between,
    share_out,
)
from tidegate.sources.kafka.topics import FoundPartitions, PartitionEnd, TopicSelection
from tidegate.sources.pace import Epoch, Pace

_LOG = logging.getLogger("tidegate")

ANSWER_KEPT_SECONDS = 0.05
"""Spark asks an idle source every 10 to 20 ms; the brokers are asked this seldom."""
LOOK_FOR_PARTITIONS_SECONDS = 10.0
"""So often the brokers are asked for new partitions and topics."""


class LostRecords(Enum):
    """What is done where records went before they were read: the job is refused, or goes on behind them."""

    REFUSE = "refuse"
    SKIP = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReading:
    """What a Kafka source reads, as its processes need it.

    `tempo`: what epochs adapt to, so that they end within the interval; without one, or without an interval, they do
    not. `group`: whose offsets "group" means.
    """

    clients: Clients
    selection: TopicSelection
    where: str
    headers: bool = False
    max_rows: int | None = None
    max_bytes: int | None = None
    tempo: Tempo | None = None
    group: str | None = None
    lost: LostRecords = LostRecords.REFUSE


class BrokerLooks(Protocol):
    """What is asked of the brokers: see `tidegate.sources.kafka.topics.Topics`."""

    def find(self, selection: TopicSelection) -> FoundPartitions: ...

    def at(self, partitions: frozenset[Partition], mark: PartitionEnd) -> OffsetOf: ...

    def at_time(self, partitions: frozenset[Partition], milliseconds: int) -> OffsetOf: ...

    def committed(self, partitions: frozenset[Partition], group: str) -> OffsetOf: ...


class EndFinder:
    """Where the next epoch ends. One for each started query, in the process that Spark keeps for its source."""

    def __init__(
        self,
        reading: TopicReading,
        topics: BrokerLooks,
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
        self._found: FoundPartitions | None = None
        self._found_at = 0.0
        self._idle: Offsets | None = None
        self._idle_at = 0.0
        self._target: OffsetOf | None = None
        tempo = reading.tempo
        self._pace = None if tempo is None else Pace.first(tempo.interval_seconds, tempo.timeout_seconds)
        self._given: tuple[Offsets, int] | None = None
        self._replayed = self._given

    def catch_up(self) -> None:
        """From now on nothing beyond what the topics hold now is given: a run that ends when it has caught up."""
        self._found, self._found_at = self._topics.find(self._reading.selection), self._clock()
        self._target = self._topics.at(self._found.partitions, PartitionEnd.LATEST)

    def after(self, start: Offsets) -> Offsets:
        """The end of the epoch that begins at `start`; `start` itself while there is nothing new.

        Raises KAFKA_TOPIC_MISSING, and KAFKA_TOPIC_RECREATED or KAFKA_OFFSETS_LOST, with the numbers, where these are
        not skipped. Brokers that do not answer are waited for once they have answered, and not by a run that ends when
        it has caught up.
        """
        self._learn(start)
        try:
            return self._end(start)
        except TidegateError as error:
            waits = self._found is not None and self._target is None
            if error.catalogue_entry is not Code.KAFKA_UNREACHABLE or not waits:
                raise
            text = "%s: waiting for the brokers (%s)"
            _LOG.warning(text, self._reading.where, error.found, extra={"event": "BrokersAwaited"})
            return start

    def planned(self, start: Offsets, end: Offsets) -> list[OffsetRange]:
        """What the epoch between two positions reads.

        An end that was given before a restart may be about topics that were made anew since: their records are others.
        Raises KAFKA_TOPIC_RECREATED then; where it is skipped, nothing of them is read until the next epoch notes it.
        """
        wanted, self._replayed = ranges(start, end), (end, rows_between(start, end))
        if not wanted or (self._given is not None and self._given[0] == end):
            return wanted
        self._look()
        anew = self._made_anew(end)
        if anew and self._reading.lost is LostRecords.REFUSE:
            raise self._recreated(end, anew)
        for each in (each for each in wanted if each.topic in anew):
            place = f"{each.topic}-{each.partition} {each.start} to {each.end - 1}"
            text = "%s: %s are lost: topic %s was made anew"
            _LOG.warning(text, self._reading.where, place, each.topic, extra={"event": "RecordsLost"})
        return [each for each in wanted if each.topic not in anew]

    def _end(self, start: Offsets) -> Offsets:
        now = self._clock()
        if start == self._idle and now - self._idle_at < ANSWER_KEPT_SECONDS:
            return start
        if self._found is None or now - self._found_at >= LOOK_FOR_PARTITIONS_SECONDS:
            self._look()
        self._require_partitions(start)
        latest = self._topics.at(frozenset(start.next), PartitionEnd.LATEST)
        wanted = self._wanted(start)
        changed = bool(_shorter(wanted, latest)) or bool(self._made_anew(wanted))
        if self._ends(start.next, latest) == start.next and not changed:
            self._idle, self._idle_at = start, now
            return start
        skipped = self._skipped(start, latest)
        begin = {**start.next, **{each: skip.to for each, skip in skipped.items()}}
        # What nobody can count is a topic's new beginning: what follows there is asked for when that is written down.
        unread = {each: skip.to for each, skip in skipped.items() if skip.records is None}
        limited = self._limited(begin, self._ends(begin, {**latest, **unread}))
        skipped_topics = {topic for topic, _ in skipped}
        kept = {topic: topic_id for topic, topic_id in start.topic_ids.items() if topic not in skipped_topics}
        topic_ids = {**self._known().topic_ids, **kept}
        end = Offsets(limited, {topic: topic_ids[topic] for topic in sorted({topic for topic, _ in limited})}, skipped)
        self._given = (end, rows_between(start, end))
        return end

    def _learn(self, start: Offsets) -> None:
        """Spark asks for the end after `start`, so the epoch that ended there is through, given here or replayed."""
        rows = next((rows for end, rows in filter(None, (self._given, self._replayed)) if end == start), 0)
        if self._pace is None or self._reading.tempo is None or rows == 0:
            return
        self._given = self._replayed = None
        seconds = self._reading.tempo.newest_epoch_seconds()
        if seconds is not None:
            self._pace = self._pace.after(Epoch(rows, seconds))

    def _look(self) -> None:
        self._found, self._found_at = self._topics.find(self._reading.selection), self._clock()

    def _known(self) -> FoundPartitions:
        if self._found is None:
            self._look()
        return self._found or FoundPartitions(frozenset(), {})

    def _require_partitions(self, start: Offsets) -> None:
        gone = start.next.keys() - self._known().partitions
        if gone:
            anew = sorted({topic for topic, _ in gone} & self._made_anew(start))
            found = f"{', '.join(anew)} made anew with fewer partitions" if anew else "no partition"
            raise self._error(Code.KAFKA_TOPIC_MISSING, f"the records from {numbers_of(start.next, gone)} on", found)

    def _ends(self, begin: OffsetOf, latest: OffsetOf) -> OffsetOf:
        """Where every known partition ends, by what is asked of those in `begin`.

        Any other partition begins with this epoch, at its oldest record, and is read from the next.
        """
        return {**self._bounded(begin, latest), **self._beginnings(self._known().partitions - begin.keys())}

    def _bounded(self, begin: OffsetOf, ends: OffsetOf) -> OffsetOf:
        """`ends`, at most where the run or the source ends, and not before `begin`."""
        for bound in (None, self._target, self._stop):
            ends = {each: max(begin[each], offset) for each, offset in _capped(ends, bound, begin).items()}
        return ends

    def _beginnings(self, new: frozenset[Partition]) -> OffsetOf:
        for bound in (self._target, self._stop):
            new = new if bound is None else new & bound.keys()
        return self._topics.at(new, PartitionEnd.EARLIEST) if new else {}

    def _skipped(self, start: Offsets, latest: OffsetOf) -> Mapping[Partition, Skip]:
        """What Spark would not notice: another topic under the old name, records that went before they were read.

        What the epoch leaves out for that; refused where nothing is to be skipped.
        """
        self._look()
        wanted = self._wanted(start)
        anew = self._made_anew(wanted)
        skips = self._reading.lost is LostRecords.SKIP
        if anew and not skips:
            raise self._recreated(start, anew)
        oldest = self._topics.at(frozenset(wanted.next), PartitionEnd.EARLIEST)
        of_others = {each: Skip(oldest[each], None) for each in wanted.next if each[0] in anew}
        lost = {each for each, offset in wanted.next.items() if oldest[each] > offset}
        if lost and not skips:
            raise self._gone(start, lost, oldest)
        back = _shorter(wanted, latest)
        if back and not skips:
            expected = f"the records from {numbers_of(start.next, back)} on"
            raise self._error(Code.KAFKA_OFFSETS_LOST, expected, f"the topic ends at {numbers_of(latest, back)}")
        reached = self._bounded(start.next, {each: oldest[each] for each in lost})
        skipped = {
            **{each: Skip(latest[each], None) for each in back},
            **{each: Skip(to, to - start.next[each]) for each, to in reached.items() if to > start.next[each]},
            **of_others,
        }
        warn_of_lost(self._reading, start.next, skipped)
        return skipped

    def _wanted(self, start: Offsets) -> Offsets:
        """Of a position, what is read further: a partition that was read to the source's `stop` may become what it
        likes."""
        stop = self._stop
        more = {each: at for each, at in start.next.items() if stop is None or at < stop.get(each, at)}
        topics = {topic for topic, _ in more}
        return Offsets(more, {topic: each for topic, each in start.topic_ids.items() if topic in topics})

    def _made_anew(self, position: Offsets) -> frozenset[str]:
        """The topics of a position that have another id now."""
        now = self._known().topic_ids
        return frozenset(topic for topic, before in position.topic_ids.items() if now.get(topic, before) != before)

    def _limited(self, begin: OffsetOf, ends: OffsetOf) -> OffsetOf:
        fitting = None if self._pace is None else self._pace.rows
        limits = [limit for limit in (self._reading.max_rows, fitting, self._rows_in_bytes(begin, ends)) if limit]
        return share_out(begin, ends, min(limits)) if limits else ends

    def _rows_in_bytes(self, begin: OffsetOf, ends: OffsetOf) -> int | None:
        """How many rows `max_bytes` are, by the mean size of the next records where most of them wait."""
        if self._reading.max_bytes is None:
            return None
        most = max(begin, key=lambda each: ends[each] - begin[each], default=None)
        if most is None or ends[most] <= begin[most]:
            return None
        return max(1, int(self._reading.max_bytes / max(1.0, self._row_bytes(most, begin[most], ends[most]))))

    def _recreated(self, position: Offsets, topics: frozenset[str]) -> TidegateError:
        topic = min(topics)
        mine = {each for each in position.next if each[0] == topic}
        return self._error(
            Code.KAFKA_TOPIC_RECREATED,
            f"topic {topic} with the id {position.topic_ids[topic]}, read up to {numbers_of(position.next, mine)}",
            f"a topic of that name with the id {self._known().topic_ids[topic]}",
        )

    def _gone(self, start: Offsets, lost: set[Partition], oldest: OffsetOf) -> TidegateError:
        count = sum(oldest[each] - start.next[each] for each in lost)
        return self._error(
            Code.KAFKA_OFFSETS_LOST,
            f"the records from {numbers_of(start.next, lost)} on",
            f"the oldest that are kept: {numbers_of(oldest, lost)}; {count} offsets are gone",
        )

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
    Code.KAFKA_TOPIC_RECREATED: 'go on with the new topic\'s oldest record with lost="skip"; or read it under another'
    " job name, with start= where it should begin",
    Code.KAFKA_OFFSETS_LOST: "they cannot come back: keep records longer (retention.ms), and go on behind them with"
    ' lost="skip", or under another job name with start= where it should begin',
}


def _capped(ends: OffsetOf, bound: OffsetOf | None, start: OffsetOf) -> OffsetOf:
    """`ends` up to a bound; a partition that the bound does not name stays where it is."""
    return {**{each: start[each] for each in ends}, **cap(ends, bound)}


def warn_of_lost(reading: TopicReading, start: OffsetOf, skipped: Mapping[Partition, Skip]) -> None:
    for each, skip in sorted(skipped.items(), key=lambda item: item[0]):
        begin, event = numbers_of(start, {each}), {"event": "RecordsLost"}
        _LOG.warning("%s: from %s it goes on at %s: %s", reading.where, begin, skip.to, skip, extra=event)


def _shorter(start: Offsets, latest: OffsetOf) -> set[Partition]:
    """The partitions that end before what was read of them."""
    return {each for each, offset in start.next.items() if latest[each] < offset}


def numbers_of(offsets: OffsetOf, partitions: set[Partition]) -> str:
    return ", ".join(f"{topic}-{number} {offsets[topic, number]}" for topic, number in sorted(partitions))
