"""The writing end of an embedded channel: a sink whose rows stay where the tasks have put them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec
import pyarrow as pa

from tidegate.channels.channel import Channel, RowsBetween, Shares
from tidegate.channels.log import ChannelLog, StagedRows, rows_folder, taken
from tidegate.channels.reading import ChannelRowsOfTask, shared_by_tasks
from tidegate.core.channel_parts import ChannelPosition
from tidegate.core.errors import TidegateError
from tidegate.core.json_formats import parsed
from tidegate.core.levels import Level
from tidegate.core.records import (
    Answer,
    Attempt,
    Committable,
    Evidence,
    JournalRef,
    Outcome,
    Position,
    SinkIdentity,
    committable_digest,
)
from tidegate.sinks.base import JournalKeeper, SinkPlan, Transaction, TwoPhaseSink, answer_all
from tidegate.sinks.marks import is_of_storage
from tidegate.sinks.standing import PROVES, Standing, in_words
from tidegate.storages.journal import JournalWriter
from tidegate.storages.journals import open_journal
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder

_JOURNAL = "journal"


class ChannelSink(TwoPhaseSink, Channel):
    """Rows for the other queries of the job. The rows of an epoch appear together, with the record of the epoch.

    Two-phase at every delivery level: the level of the job decides nothing here. A reader needs positions that stay.
    """

    journal: ClassVar[JournalKeeper] = JournalKeeper.STAGE
    levels: ClassVar[frozenset[Level]] = frozenset({Level.EXACTLY_ONCE})
    kind: ClassVar[str] = "channel"
    stays_in_job: ClassVar[bool] = True

    def __init__(self, uid: str, folder: Folder, max_unread: int | None = None) -> None:
        """As `Channel`."""
        TwoPhaseSink.__init__(self, uid, delivery=Level.EXACTLY_ONCE.value)
        Channel.__init__(self, folder, max_unread)

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), **self.NOT_PICKLED}

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
        return {"folder": str(self.folder)}

    @classmethod
    def from_description(
        cls, uid: str, described: Mapping[str, object], options: Mapping[str, str], delivery: str
    ) -> TwoPhaseSink:
        return cls(uid, Folder.of(str(described["folder"])))

    @classmethod
    def told(cls, described: Mapping[str, object]) -> str:
        return f"channel {described['folder']}"

    # --- before a query starts -----------------------------------------------------------------------------

    def check(self, plan: SinkPlan) -> Sequence[TidegateError]:
        """A start reads the log again: another driver may have published since."""
        self._log = ChannelLog(self.folder)
        other = self._log.other_writer(plan.identity.query, plan.identity.generation)
        return [] if other is None else [taken(self.folder, plan.identity, other)]

    def open(self, plan: SinkPlan) -> None:
        self._log = ChannelLog(self.folder)
        self._log.sweep()

    def position(self, identity: SinkIdentity) -> Position | None:
        return self.log.position(identity.query) if identity.sink == self.uid else None

    # --- in a task -----------------------------------------------------------------------------------------

    def begin(self, attempt: Attempt) -> Transaction:
        journal = open_journal(rows_folder(self.folder, attempt.sink.job_id, attempt.sink.generation))
        name = f"{attempt.epoch}/{attempt.name}.{secrets.token_hex(8)}.arrow"  # each begin has a file of its own
        return _ChannelTransaction(attempt, journal.writer(name))

    # --- the commit phase, on a driver ---------------------------------------------------------------------

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        if not committables:
            return []
        staged = [StagedRows(each, _journal_of(each)) for each in committables]
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
        found = rows.look(staged.journal.name)
        if found is not None and found.size_bytes == staged.journal.size_bytes:
            return ""
        size = "absent" if found is None else f"{found.size_bytes} bytes instead of {staged.journal.size_bytes}"
        return f"{rows.where(staged.journal.name)}: {size}"


class _ChannelTransaction(Transaction):
    def __init__(self, attempt: Attempt, rows: JournalWriter) -> None:
        self._attempt = attempt
        self._rows = rows

    def write(self, batch: pa.RecordBatch) -> None:
        self._rows.write(batch)

    def pre_commit(self) -> Committable | None:
        reference = self._rows.close()
        if reference is None:
            return None
        return Committable(
            attempt=self._attempt,
            rows=reference.rows,
            digest=committable_digest(self._attempt, reference.checksum),
            handle={_JOURNAL: msgspec.json.encode(reference).decode()},
        )

    def abort(self) -> None:
        self._rows.abort()


def _journal_of(committable: Committable) -> JournalRef:
    return parsed(committable.handle[_JOURNAL], JournalRef)


def _lost(flaw: str) -> Answer:
    return Answer(outcome=Outcome.LOST, detail=flaw)


_WAITING = Answer(outcome=Outcome.RETRY, detail="not published: other rows of this epoch are lost")
_ALREADY = Answer(outcome=Outcome.ALREADY, detail="the epoch is published")
