"""The log of an embedded channel: the epochs that its writer has published, one record after the other.

    channels/<channel>/epochs/<number>                   what the epoch has published: `ChannelEpoch`
    channels/<channel>/rows/<job id>/g<generation>/...   the rows of each attempt: a journal for each generation

An epoch is published by its record, put if absent under the next number. The record is the commit and its evidence in
one. Two drivers that publish at the same time meet at one number: one of them wins, the other one reads the winner.
A driver that was paused knows old numbers only. There it meets a record, or it writes below `oldest`, which no reader
looks at.

The rows of a part are numbered from 0, in the order of epochs, tasks and rows. Each generation of the writer has parts
of its own, so that a number never means two rows: one, or one for each partition of a keyed channel. A part whose
generation was left has its end in each later record.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.core.channel_parts import generation_of, part_of
from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import (
    ChannelEpoch,
    ChannelKey,
    ChannelRows,
    Committable,
    JournalRef,
    Position,
    SinkIdentity,
    encode,
)
from tidegate.disk.side_by_side import side_by_side
from tidegate.savepoints.cut import EPOCHS
from tidegate.sinks.standing import Entry, Standing, standing_of_epoch, standing_of_one
from tidegate.storages.journals import open_journal
from tidegate.storages.opening import open_storage
from tidegate.storages.recorded import record_in
from tidegate.storages.schemes import Folder

KEPT_AT_LEAST = 100
"""So many records stay, because their epochs may be committed once more."""

TRIMMED_TOGETHER = 64

_DIGITS = 12


@dataclass(frozen=True, slots=True)
class StagedRows:
    """The rows of one committable, where its task has left them: a journal for each part that has any, by its number.
    `key`: what has parted them.
    """

    committable: Committable
    journals: Mapping[int, JournalRef]
    key: ChannelKey | None = None


@dataclass(frozen=True, slots=True)
class PublishedRows:
    """Rows of a channel, in one journal. `skip`: how many of its rows come before them. `key`: what has parted them."""

    job_id: str
    generation: int
    part: str
    begin: int
    rows: int
    skip: int
    journal: JournalRef
    key: ChannelKey | None = None


@dataclass(frozen=True, slots=True)
class RowsKept:
    """How many rows there are, of how many epochs of the writer."""

    epochs: int
    rows: int


class ChannelLog:
    """The log of one channel, in one process. Threads share it."""

    def __init__(self, folder: Folder, kept_at_least: int = KEPT_AT_LEAST) -> None:
        """`folder`: that of the channel. `kept_at_least`: how many records a trim leaves."""
        self._folder = folder
        self._storage = open_storage(folder / EPOCHS)
        self._kept_at_least = kept_at_least
        self._lock = threading.Lock()
        self._records: tuple[ChannelEpoch, ...] = self._found()
        """Replaced as a whole, under the lock: a reader needs no lock."""
        self._needed = self._records[0].number if self._records else 0

    @property
    def ends(self) -> Mapping[str, int]:
        """The number of the row after the last one, for each part."""
        records = self._records
        return records[-1].ends if records else {}

    @property
    def kept(self) -> RowsKept:
        """What is there, read or not."""
        records = self._records
        return RowsKept(len(records), sum(rows.journal.rows for record in records for rows in record.rows))

    def sweep(self) -> None:
        """Remove what an interrupted trim or a late driver has left below the oldest record that is needed."""
        records = self._records
        if records:
            numbers = (int(name) for name in self._storage.peek_names("") if name.isdigit())
            self._storage.delete_all([_name(number) for number in numbers if number < records[-1].oldest])

    def entry(self, generation: int, epoch: int) -> Entry | None:
        """The evidence of an epoch; None if it is not published, or was trimmed."""
        found = [each for each in reversed(self._records) if (each.generation, each.epoch) == (generation, epoch)]
        return _entry(found[0]) if found else None

    def newest_epoch(self, generation: int) -> int:
        """The newest epoch that a generation has published; -1 if there is none. Reads what other processes have
        published.
        """
        with self._lock:
            self._look_ahead()
            return max((each.epoch for each in self._records if each.generation == generation), default=-1)

    def begin(self, generation: int) -> Mapping[str, int]:
        """Where the rows of this generation begin that are there: older ones were removed behind all readers."""
        ends = {part_of(self._folder.name, generation): 0, **self.ends}
        found = {rows.part: rows.begin for record in reversed(self._records) for rows in reversed(record.rows)}
        return {part: found.get(part, end) for part, end in ends.items() if generation_of(part) == generation}

    def other_writer(self, query: str, generation: int) -> str | None:
        """The query that writes the channel, if it is another one. A new generation may have another writer."""
        records = self._records
        is_other = bool(records) and records[-1].query != query and records[-1].generation >= generation
        return records[-1].query if is_other else None

    def forget(self, job_id: str) -> None:
        """Remove what this job has written, and the channel if nothing is left; the rows of another job stay."""
        channel = open_storage(self._folder)
        is_its = not self._records or self._records[-1].job_id == job_id
        if is_its:
            channel.clear(EPOCHS)
        channel.clear(f"rows/{job_id}")
        if is_its and not channel.folders("rows"):
            channel.clear("")

    def position(self, query: str) -> Position | None:
        """The newest evidence of this writer; None before its first epoch. A channel has one writer."""
        records = self._records
        return _entry(records[-1]).position if records and records[-1].query == query else None

    def standing_of_one(self, committable: Committable) -> Standing:
        """What the log says of one transaction. Reads what other processes have published."""
        attempt = committable.attempt
        with self._lock:
            self._look_ahead()
            found = self.entry(attempt.sink.generation, attempt.epoch)
            return standing_of_one(committable, found, self.position(attempt.sink.query))

    def publish(self, staged: Sequence[StagedRows]) -> tuple[Standing, bool]:
        """Publish the rows of an epoch. Returns its standing behind this call, and True if this call has published it.

        `staged`: all rows of the epoch.
        """
        wanted, query = Entry.of([each.committable for each in staged]), staged[0].committable.attempt.sink.query
        with self._lock:
            while True:
                if self.other_writer(query, wanted.generation) is not None:
                    return Standing.OTHER, False
                found = self.entry(wanted.generation, wanted.epoch)
                standing = standing_of_epoch(wanted, found, self.position(query))
                if standing is not Standing.OPEN:
                    return standing, False
                if self._put(self._next(wanted, query, staged)):
                    return Standing.SAME, True
                self._look_ahead()

    def note(self, job_id: str, query: str, generation: int, epoch: int, ends: Mapping[str, int]) -> None:
        """Record where a channel ends with an epoch, if its rows are elsewhere. Does nothing if this epoch or a later
        one is recorded: the first record of an epoch counts.
        """
        with self._lock:
            while not self.has_noted(generation, epoch):
                record = ChannelEpoch(
                    number=_behind(self._records),
                    oldest=self._needed,
                    job_id=job_id,
                    query=query,
                    generation=generation,
                    epoch=epoch,
                    digest="",
                    committables=(),
                    rows=(),
                    ends=dict(ends),
                )
                if not self._put(record):
                    self._look_ahead()

    def has_noted(self, generation: int, epoch: int) -> bool:
        """True if this process knows a record of this epoch or of a later one."""
        newest = self._records[-1:]
        return any((each.generation, each.epoch) >= (generation, epoch) for each in newest)

    def between(self, begin: Mapping[str, int], end: Mapping[str, int], where: str) -> list[PublishedRows]:
        """The rows between two positions, in the order of publication.

        Raises CHANNEL_LOST if a row is not there any more.
        """
        found: list[PublishedRows] = []
        at = {part: begin.get(part, 0) for part in end}
        for record in self._records:
            for rows in record.rows:
                first, behind = at.get(rows.part, 0), min(end.get(rows.part, 0), rows.begin + rows.journal.rows)
                if rows.begin <= first < behind:
                    found.append(_published(record, rows, first, behind - first))
                    at[rows.part] = behind
        for part, to in end.items():
            if at[part] < to:
                raise self._lost(f"rows {at[part]} to {to} of part {part}", where)
        return found

    def is_worth_a_trim(self, before: Mapping[str, int]) -> bool:
        """True if enough records have gathered that `trim` would remove."""
        return self._unneeded(before) >= TRIMMED_TOGETHER

    def trim(self, before: Mapping[str, int]) -> None:
        """Rows before this position are needed no more, and those of parts that are older than all in it. They go
        behind the next published epoch.
        """
        with self._lock:
            self._needed = max(self._needed, self._records[self._unneeded(before)].number)

    def _unneeded(self, before: Mapping[str, int]) -> int:
        """How many records at the begin have no row that is needed."""
        oldest = min(map(generation_of, before), default=-1)

        def is_needed(record: ChannelEpoch) -> bool:
            parts = (part for part in {*record.ends, *before} if generation_of(part) >= oldest)
            return any(record.ends.get(part, 0) > before.get(part, 0) for part in parts)

        records = self._records[: -self._kept_at_least]
        return next((number for number, each in enumerate(records) if is_needed(each)), len(records))

    # --- records -------------------------------------------------------------------------------------------

    def _found(self) -> tuple[ChannelEpoch, ...]:
        numbers = self._numbers()
        while numbers:
            newest = self._demanded(numbers[-1])
            older = [number for number in numbers if newest.oldest <= number < newest.number]
            found = [each for each in side_by_side(self._record, older) if each is not None]
            if len(found) == len(older):
                return (*found, newest)
            before, numbers = numbers, self._numbers()
            if numbers[-1:] == before[-1:]:  # else a driver has published meanwhile, and removed older ones
                raise self._lost("a record", self._folder.name)
        return ()

    def _numbers(self) -> list[int]:
        return sorted(int(name) for name in self._storage.list("") if name.isdigit())

    def _record(self, number: int) -> ChannelEpoch | None:
        return record_in(self._storage, ChannelEpoch, _name(number))

    def _look_ahead(self) -> None:
        """Read what other processes have published behind the newest known record."""
        records = list(self._records)
        while (found := self._record(_behind(records))) is not None:
            records.append(found)
        self._records = tuple(each for each in records if each.number >= records[-1].oldest) if records else ()

    def _next(self, wanted: Entry, query: str, staged: Sequence[StagedRows]) -> ChannelEpoch:
        records = self._records
        ends = dict(self.ends)
        rows: list[ChannelRows] = []
        for each in sorted(staged, key=lambda each: each.committable.attempt.task):
            for number, journal in sorted(each.journals.items()):
                part = part_of(self._folder.name, wanted.generation, number)
                rows.append(ChannelRows(part=part, begin=ends.get(part, 0), journal=journal))
                ends[part] = ends.get(part, 0) + journal.rows
        return ChannelEpoch(
            number=_behind(records),
            oldest=self._needed,
            job_id=wanted.job_id,
            query=query,
            generation=wanted.generation,
            epoch=wanted.epoch,
            digest=wanted.digest,
            committables=wanted.committables,
            rows=tuple(rows),
            ends=ends,
            key=staged[0].key,
        )

    def _put(self, record: ChannelEpoch) -> bool:
        """Publish a record. False if there is another one of this number. Then what is not needed any more goes."""
        if not self._storage.put_if_absent(_name(record.number), encode(record)):
            return False
        gone = [each for each in self._records if each.number < record.oldest]
        self._records = (*self._records[len(gone) :], record)
        if gone:
            self._remove(gone)
        return True

    def _remove(self, gone: Sequence[ChannelEpoch]) -> None:
        """First the records, then the rows: a record never names rows that are gone, also after a power loss."""
        self._storage.delete_all([_name(each.number) for each in gone])
        self._storage.settle("")
        newest = {(each.job_id, each.generation): each.epoch for each in gone if each.rows}  # in the order of epochs
        for (job_id, generation), epoch in newest.items():  # with what a killed driver, or a lost attempt, has left
            open_journal(rows_folder(self._folder, job_id, generation)).delete_through(epoch)

    def _demanded(self, number: int) -> ChannelEpoch:
        found = self._record(number)
        if found is None:
            raise self._lost(f"record {number}", self._folder.name)
        return found

    def _lost(self, what: str, where: str) -> TidegateError:
        return TidegateError(
            Code.CHANNEL_LOST,
            expected=f"{what} of the channel",
            found="they are not there",
            where=f"{where}, {self._folder}",
            next_step="put the folder back from a copy; or begin anew (tidegate run --fresh)",
        )


def rows_folder(channel: Folder, job_id: str, generation: int) -> Folder:
    """The folder of the rows that a generation of the writer has left, published or not."""
    return channel / "rows" / job_id / f"g{generation}"


def taken(channel: Folder, writer: SinkIdentity, other: str) -> TidegateError:
    """The error for a second query that writes a channel."""
    return TidegateError(
        Code.CHANNEL_TAKEN,
        expected=f"query {other}, which has written the channel in generation {writer.generation} of the job",
        found=f"query {writer.query}: its readers would get the rows of both",
        where=f"{writer}, {channel}",
        next_step=f"name the query {other}; or write another channel; or begin anew (tidegate run --fresh)",
    )


def _published(record: ChannelEpoch, rows: ChannelRows, begin: int, count: int) -> PublishedRows:
    skip = begin - rows.begin
    return PublishedRows(record.job_id, record.generation, rows.part, begin, count, skip, rows.journal, record.key)


def _behind(records: Sequence[ChannelEpoch]) -> int:
    """The number of the record behind these."""
    return records[-1].number + 1 if records else 0


def _name(number: int) -> str:
    return f"{number:0{_DIGITS}}"


def _entry(record: ChannelEpoch) -> Entry:
    return Entry(
        job_id=record.job_id,
        generation=record.generation,
        epoch=record.epoch,
        digest=record.digest,
        committables=record.committables,
    )
