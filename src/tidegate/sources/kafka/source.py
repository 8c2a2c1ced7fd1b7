"""Finds where each epoch of a Kafka source ends, and notices records that were lost and topics that were created again.

An epoch ends at the last stable offset of each partition, or earlier because of a limit. All checks of the topics are
made before an end is returned, because an end that Spark has recorded cannot be changed any more.
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
from tidegate.sources.used_columns import UsedColumns
from tidegate.sources.value_parsing import ValueParsing

_LOG = logging.getLogger("tidegate")

ANSWER_KEPT_SECONDS = 0.05
"""Spark asks an idle source every 10 to 20 ms; the brokers are asked this seldom."""
LOOK_FOR_PARTITIONS_SECONDS = 10.0
"""So often the brokers are asked for new partitions and topics."""


class LostRecords(Enum):
    """What to do if records were deleted before they were read: refuse, or skip them."""

    REFUSE = "refuse"
    SKIP = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReading:
    """The settings of a Kafka source that its processes need.

    `tempo`: the duration to which the size of epochs adapts; None: it does not adapt. `group`: the consumer group for
    `start="group"`. `headers`: read the headers of records. `where`: the name of the source in messages.
    `columns`: the columns that the query uses, None for all; the others are null. `values`: how the values are parsed;
    None: they stay bytes.
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
    columns: UsedColumns | None = None
    values: ValueParsing | None = None


class BrokerLooks(Protocol):
    """The requests to the brokers. `tidegate.sources.kafka.topics.Topics` implements them."""

    def find(self, selection: TopicSelection) -> FoundPartitions: ...

    def at(self, partitions: frozenset[Partition], mark: PartitionEnd) -> OffsetOf: ...

    def at_time(self, partitions: frozenset[Partition], milliseconds: int) -> OffsetOf: ...

    def committed(self, partitions: frozenset[Partition], group: str) -> OffsetOf: ...


class EndFinder:
    """Finds the end of the next epoch. Each started query has one, in the process that Spark keeps for its source."""

    def __init__(
        self,
        reading: TopicReading,
        topics: BrokerLooks,
        stop: OffsetOf | None,
        row_bytes: Callable[[Partition, int, int], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`row_bytes`: the mean size in bytes of the records of a partition between two offsets.

        `stop`: the offsets where a bounded source ends; None if it is not bounded.
        """
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
        self._pace = None if tempo is None else Pace.first(tempo.aim_seconds, tempo.timeout_seconds)
        self._given: tuple[Offsets, int] | None = None
        self._replayed = self._given

    def catch_up(self) -> None:
        """Let no later epoch end after the records that exist now. Called for a run until `caught-up`."""
        self._found, self._found_at = self._topics.find(self._reading.selection), self._clock()
        self._target = self._topics.at(self._found.partitions, PartitionEnd.LATEST)

    def after(self, start: Offsets) -> Offsets:
        """The end of the epoch that begins at `start`; `start` itself if there are no new records.

        Raises KAFKA_TOPIC_MISSING. Raises KAFKA_TOPIC_RECREATED and KAFKA_OFFSETS_LOST unless lost records are to be
        skipped. If the brokers stop answering later, it logs a warning and returns `start`; at the start of a job, and
        in a run until `caught-up`, it raises.
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
        """The ranges that the epoch between two positions reads.

        If `end` was found before a restart, a topic may have been created again since, with other records. Then it
        raises KAFKA_TOPIC_RECREATED, or, if lost records are to be skipped, leaves out that topic; the next epoch reads
        it.
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
        # An unknown number means a topic that was created again: its records are read after this position is recorded.
        unread = {each: skip.to for each, skip in skipped.items() if skip.records is None}
        limited = self._limited(begin, self._ends(begin, {**latest, **unread}))
        skipped_topics = {topic for topic, _ in skipped}
        kept = {topic: topic_id for topic, topic_id in start.topic_ids.items() if topic not in skipped_topics}
        topic_ids = {**self._known().topic_ids, **kept}
        end = Offsets(limited, {topic: topic_ids[topic] for topic in sorted({topic for topic, _ in limited})}, skipped)
        self._given = (end, rows_between(start, end))
        return end

    def _learn(self, start: Offsets) -> None:
        """Adapt the pace. Spark asks for the end after `start`, so the epoch that ended there is finished."""
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
        """The end of every partition: for those in `begin` within the limits of the run and the source.

        Any other partition is new in this epoch: its end is its oldest record, and the next epoch reads from there.
        """
        return {**self._bounded(begin, latest), **self._beginnings(self._known().partitions - begin.keys())}

    def _bounded(self, begin: OffsetOf, ends: OffsetOf) -> OffsetOf:
        """`ends`, limited to where the run or the source ends, and never before `begin`."""
        for bound in (None, self._target, self._stop):
            ends = {each: max(begin[each], offset) for each, offset in _capped(ends, bound, begin).items()}
        return ends

    def _beginnings(self, new: frozenset[Partition]) -> OffsetOf:
        for bound in (self._target, self._stop):
            new = new if bound is None else new & bound.keys()
        return self._topics.at(new, PartitionEnd.EARLIEST) if new else {}

    def _skipped(self, start: Offsets, latest: OffsetOf) -> Mapping[Partition, Skip]:
        """For each partition with lost records, what the epoch skips: after a topic was created again, or records were
        deleted.

        Spark itself would not notice these. Raises if lost records are not to be skipped.
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
        """The part of a position that the source will still read.

        Without partitions that were read to the source's `stop`: changes to these do not matter.
        """
        stop = self._stop
        more = {each: at for each, at in start.next.items() if stop is None or at < stop.get(each, at)}
        topics = {topic for topic, _ in more}
        return Offsets(more, {topic: each for topic, each in start.topic_ids.items() if topic in topics})

    def _made_anew(self, position: Offsets) -> frozenset[str]:
        """The topics of a position that were created again since: their id has changed."""
        now = self._known().topic_ids
        return frozenset(topic for topic, before in position.topic_ids.items() if now.get(topic, before) != before)

    def _limited(self, begin: OffsetOf, ends: OffsetOf) -> OffsetOf:
        fitting = None if self._pace is None else self._pace.rows
        limits = [limit for limit in (self._reading.max_rows, fitting, self._rows_in_bytes(begin, ends)) if limit]
        return share_out(begin, ends, min(limits)) if limits else ends

    def _rows_in_bytes(self, begin: OffsetOf, ends: OffsetOf) -> int | None:
        """The number of rows that fit into `max_bytes`; None without that limit.

        Estimated from the mean size of the next records of the partition with the largest backlog.
        """
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
    Code.KAFKA_TOPIC_RECREATED: 'read on with the new topic\'s oldest record with lost="skip"; or read it under another'
    " job name, with start= where it should begin",
    Code.KAFKA_OFFSETS_LOST: "they cannot come back: keep records longer (retention.ms), and skip them with"
    ' lost="skip", or under another job name with start= where it should begin',
}


def _capped(ends: OffsetOf, bound: OffsetOf | None, start: OffsetOf) -> OffsetOf:
    """`ends`, limited by `bound`. A partition that is not in `bound` ends where it starts."""
    return {**{each: start[each] for each in ends}, **cap(ends, bound)}


def warn_of_lost(reading: TopicReading, start: OffsetOf, skipped: Mapping[Partition, Skip]) -> None:
    for each, skip in sorted(skipped.items(), key=lambda item: item[0]):
        begin, event = numbers_of(start, {each}), {"event": "RecordsLost"}
        _LOG.warning("%s: from %s it continues at %s: %s", reading.where, begin, skip.to, skip, extra=event)


def _shorter(start: Offsets, latest: OffsetOf) -> set[Partition]:
    """The partitions that now end before the offset that the job has reached."""
    return {each for each, offset in start.next.items() if latest[each] < offset}


def numbers_of(offsets: OffsetOf, partitions: set[Partition]) -> str:
    return ", ".join(f"{topic}-{number} {offsets[topic, number]}" for topic, number in sorted(partitions))
