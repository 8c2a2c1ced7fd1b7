"""The writing end of an embedded channel: a sink whose rows stay where the tasks have put them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import msgspec
import pyarrow as pa

from tidegate.channels.channel import Channel, RowsBetween, Shares
from tidegate.channels.described import DescribedChannel
from tidegate.channels.log import ChannelLog, StagedRows, rows_folder, taken
from tidegate.channels.partitions import MOST_PARTITIONS, refused_key
from tidegate.channels.reading import ChannelRowsOfTask, shared_by_tasks
from tidegate.channels.transaction import ChannelTransaction, staged_rows
from tidegate.core.channel_parts import ChannelPosition
from tidegate.core.errors import Code, TidegateError
from tidegate.core.health import Finding
from tidegate.core.levels import Level
from tidegate.core.records import (
    Answer,
    Attempt,
    ChannelKey,
    Committable,
    Evidence,
    JournalRef,
    Outcome,
    Position,
    SinkIdentity,
)
from tidegate.disk.side_by_side import side_by_side
from tidegate.sinks.base import JournalKeeper, SinkPlan, Transaction, TwoPhaseSink, answer_all
from tidegate.sinks.marks import is_of_storage
from tidegate.sinks.standing import PROVES, Standing, in_words
from tidegate.storages.journals import open_journal
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Storage


@dataclass(frozen=True, slots=True)
class EmbeddedChannel:
    """A channel with keys, in the folder of the job: `job.channel("orders", EmbeddedChannel("account", partitions=8))`.

    Rows with the same key are in one partition. One task of a reader reads a partition, in the order of the writes. The
    value of a key and `partitions` alone decide its partition.

    `key`: a column of a plain type: a number, a string, binary, a boolean, a date or a time. `partitions`: 1 to 256. It
    bounds how many tasks of a reader share the rows. A task of the writer has a file for each partition, in each epoch.
    Both may be changed between two starts.
    """

    key: str
    partitions: int = 8

    def sink(self, uid: str, folder: Folder, max_unread: int | None) -> ChannelSink:
        """The channel of this uid. `folder`, `max_unread`: as in `Channel`. Raises SETTING_VALUE."""
        if not 1 <= self.partitions <= MOST_PARTITIONS:
            raise TidegateError(
                Code.SETTING_VALUE,
                expected=f"partitions= from 1 to {MOST_PARTITIONS}",
                found=str(self.partitions),
                where=f"channel {uid}",
                next_step="give about as many as tasks of a reader are to run at once",
            )
        return ChannelSink(uid, folder, max_unread, ChannelKey(column=self.key, partitions=self.partitions))


class ChannelSink(TwoPhaseSink, Channel):
    """Rows for the other queries of the job. The rows of an epoch appear together, with the record of the epoch.

    Two-phase at every delivery level: the level of the job decides nothing here. A reader needs positions that stay.
    """

    journal: ClassVar[JournalKeeper] = JournalKeeper.STAGE
    levels: ClassVar[frozenset[Level]] = frozenset({Level.EXACTLY_ONCE})
    kind: ClassVar[str] = "channel"
    stays_in_job: ClassVar[bool] = True

    def __init__(self, uid: str, folder: Folder, max_unread: int | None = None, key: ChannelKey | None = None) -> None:
        """As `Channel`. `key`: what decides the part of a row; None: there is one part."""
        TwoPhaseSink.__init__(self, uid, delivery=Level.EXACTLY_ONCE.value)
        Channel.__init__(self, folder, max_unread)
        self._key = key

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), **self.NOT_PICKLED}

    def as_source(self) -> DescribedChannel:
        return DescribedChannel(self.folder)

    # --- of the queries of the job ---------------------------------------------------------------------------

    def stand(self, writer: SinkIdentity, epoch: int) -> None:
        """Nothing to do: the record of an epoch is its commit."""

    def begin_of(self, generation: int) -> ChannelPosition:
        return self.log.begin(generation)

    def readable(self) -> ChannelPosition:
        return self.log.ends

    def shares(self, begin: ChannelPosition, end: ChannelPosition, tasks: int, where: str) -> Shares:
        return shared_by_tasks(self.log.between(begin, end, where), tasks)

    def rows(self, schema: pa.Schema, where: str) -> ChannelRowsOfTask:
        return ChannelRowsOfTask(self.folder, schema, where)

    def between(self, begin: ChannelPosition, end: ChannelPosition) -> RowsBetween:
        found = self.log.between(begin, end, "")
        size = sum(each.journal.size_bytes * each.rows // each.journal.rows for each in found)
        return RowsBetween(sum(each.rows for each in found), size)

    # --- opened without the program --------------------------------------------------------------------------

    def describe(self) -> Mapping[str, object]:
        key = {} if self._key is None else {"key": msgspec.to_builtins(self._key)}
        return {"folder": str(self.folder), **key}

    @classmethod
    def from_description(
        cls, uid: str, described: Mapping[str, object], options: Mapping[str, str], delivery: str
    ) -> TwoPhaseSink:
        return cls(uid, Folder.of(str(described["folder"])), key=_key_in(described))

    @classmethod
    def told(cls, described: Mapping[str, object]) -> str:
        key = _key_in(described)
        keyed = "" if key is None else f", {key.partitions} partitions by {key.column}"
        return f"channel {described['folder']}{keyed}"

    def probe(self, what: str, plan: SinkPlan) -> Sequence[Finding]:
        return self.as_source().probe(what)

    # --- before a query starts -----------------------------------------------------------------------------

    def check(self, plan: SinkPlan) -> Sequence[TidegateError]:
        """A start reads the log again: another driver may have published since."""
        self._log = ChannelLog(self.folder)
        other = self._log.other_writer(plan.identity.query, plan.identity.generation)
        return [
            *([] if other is None else [taken(self.folder, plan.identity, other)]),
            *([] if self._key is None else refused_key(self._key, plan.schema, f"channel {self.uid}")),
        ]

    def open(self, plan: SinkPlan) -> None:
        self._log = ChannelLog(self.folder)
        self._log.sweep()

    def position(self, identity: SinkIdentity) -> Position | None:
        return self.log.position(identity.query) if identity.sink == self.uid else None

    # --- in a task -----------------------------------------------------------------------------------------

    def begin(self, attempt: Attempt) -> Transaction:
        journal = open_journal(rows_folder(self.folder, attempt.sink.job_id, attempt.sink.generation))
        return ChannelTransaction(attempt, journal, self._key)

    # --- the commit phase, on a driver ---------------------------------------------------------------------

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        if not committables:
            return []
        staged = [staged_rows(each) for each in committables]
        try:
            lost = [self._flaw(each) for each in staged]
            if any(lost):
                return [_lost(flaw) if flaw else _WAITING for flaw in lost]
            standing, is_new = self.log.publish(staged)
        except TidegateError as error:
            if not is_of_storage(error):
                raise
            return answer_all(committables, Outcome.RETRY, f"{error.where}: {error.found}")
        if standing is not Standing.SAME:
            attempt = committables[0].attempt
            told = in_words(standing, attempt.sink, attempt.epoch, self.log.position(attempt.sink.query))
            return answer_all(committables, Outcome.UNKNOWN, f"{self.folder}: {told}")
        return [Answer(outcome=Outcome.COMMITTED) if is_new else _ALREADY for _ in committables]

    def evidence(self, committable: Committable) -> Evidence:
        try:
            return PROVES[self.log.standing_of_one(committable)]
        except TidegateError as error:
            if not is_of_storage(error):
                raise
            return Evidence.UNKNOWN

    # --- clean-up, on a driver -----------------------------------------------------------------------------

    def discard(self, identity: SinkIdentity, from_epoch: int) -> int:
        """Rows of published epochs stay: a reader may still need them, also those of an older generation."""
        journal = open_journal(rows_folder(self.folder, identity.job_id, identity.generation))
        first = max(from_epoch, self.log.newest_epoch(identity.generation) + 1)
        found = [epoch for epoch in journal.epochs() if epoch >= first]
        journal.delete_from(first)
        return len(found)

    def forget(self, identity: SinkIdentity) -> None:
        ChannelLog(self.folder).forget(identity.job_id)

    def _flaw(self, staged: StagedRows) -> str:
        """What is wrong with staged rows; empty if they are whole."""
        identity = staged.committable.attempt.sink
        rows = open_storage(rows_folder(self.folder, identity.job_id, identity.generation))
        flaws = side_by_side(lambda journal: _flaw_of(rows, journal), list(staged.journals.values()))
        return next(filter(None, flaws), "")


def _key_in(described: Mapping[str, object]) -> ChannelKey | None:
    return msgspec.convert(described.get("key"), ChannelKey | None)


def _flaw_of(rows: Storage, journal: JournalRef) -> str:
    found = rows.look(journal.name)
    if found is not None and found.size_bytes == journal.size_bytes:
        return ""
    size = "absent" if found is None else f"{found.size_bytes} bytes instead of {journal.size_bytes}"
    return f"{rows.where(journal.name)}: {size}"


def _lost(flaw: str) -> Answer:
    return Answer(outcome=Outcome.LOST, detail=flaw)


_WAITING = Answer(outcome=Outcome.RETRY, detail="not published: other rows of this epoch are lost")
_ALREADY = Answer(outcome=Outcome.ALREADY, detail="the epoch is published")
