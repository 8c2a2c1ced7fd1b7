"""The commit phase of a Delta sink, on a driver: it publishes the files of an epoch, then names all of them in one
commit of the table's log, together with the evidence. Where rows are replaced by key, the same commit removes the files
that had older rows of these keys (`upsert.py`).

Why a commit is atomic with its evidence: an entry of the log is one file, created if absent, and has both. Why it
happens once: the evidence is looked for in one version of the table, and the commit writes the version after it. Of two
drivers that saw the same version one creates the next entry; the other one looks again, and finds it. The library's own
rule is not relied on: it takes an application transaction with an older version for a new one. So other writers make a
commit look again, and nothing else; after `TRIES` the answer is RETRY.

Why that survives a power loss on a disk, where the library syncs nothing: the tasks have synced the files, `publish`
their names, and the log is synced up to the commit before it is reported (`log_syncs.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError

from tidegate.core.errors import TidegateError
from tidegate.core.json_formats import parsed
from tidegate.core.records import Answer, Committable, Evidence, Outcome, SinkIdentity, epoch_digest
from tidegate.disk.side_by_side import side_by_side
from tidegate.sinks.base import answer_all
from tidegate.sinks.delta.actions import FileAction, added, values_in
from tidegate.sinks.delta.declared import DeclaredDeltaSink
from tidegate.sinks.delta.features import expiring, rules_against_replacing, rules_against_rewriting
from tidegate.sinks.delta.ledger import TableEvidence, TableLedger, encoded
from tidegate.sinks.delta.log_syncs import sync_log
from tidegate.sinks.delta.place import NO_HOOKS, TABLE_ERRORS, TablePlace, alone, told
from tidegate.sinks.delta.table import columns_of
from tidegate.sinks.delta.transaction import keyed_of
from tidegate.sinks.delta.types import fields_by_name, flaws_of
from tidegate.sinks.delta.upsert import Replacement
from tidegate.sinks.files.parts import parts_of
from tidegate.sinks.marks import is_of_storage
from tidegate.sinks.standing import PROVES, Entry, Standing, in_words, standing_of_epoch, standing_of_one
from tidegate.sinks.table_commits import TRIES, TableCommits


@dataclass(frozen=True, slots=True)
class DeltaCommitter:
    """Adds prepared files to the table of a sink, and finds out which of them were added."""

    sink: DeclaredDeltaSink

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        return self._until_alone(committables, self._commit)

    def commit_straight(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        return self._until_alone(committables, self._show)

    def evidence(self, committable: Committable) -> Evidence:
        try:
            table = self.sink.place.table()
            return Evidence.UNKNOWN if table is None else self._evidence(table, committable)
        except TABLE_ERRORS:
            return Evidence.UNKNOWN
        except TidegateError as error:
            if not is_of_storage(error):
                raise
            return Evidence.UNKNOWN

    # --- looking -------------------------------------------------------------------------------------------

    def _evidence(self, table: DeltaTable, committable: Committable) -> Evidence:
        attempt, ledger = committable.attempt, TableLedger(self.sink.place, table)
        newest = ledger.newest(attempt.sink)
        if ledger.is_undone(attempt.sink, newest):
            return Evidence.UNKNOWN
        found = ledger.entry_of(attempt.sink, attempt.epoch, newest)
        if found is not None and not found.committables:
            return Evidence.PRESENT if found.digest == epoch_digest([committable]) else Evidence.UNKNOWN
        standing = standing_of_one(committable, found, None if newest is None else newest.position)
        if standing is Standing.SAME:
            self._settle_again(newest)
        return PROVES[standing]

    def _commit(self, table: DeltaTable, rows: _StagedEpoch) -> Sequence[Answer]:
        committables = rows.committables
        wanted, identity = Entry.of(committables), committables[0].attempt.sink
        ledger = TableLedger(self.sink.place, table)
        newest = ledger.newest(identity)
        if ledger.is_undone(identity, newest):
            return self._table.unknown(committables, "the table was restored to a version before committed epochs")
        found = ledger.entry_of(identity, wanted.epoch, newest)
        position = None if newest is None else newest.position
        is_same = found is not None and found.position == wanted.position
        standing = standing_of_epoch(wanted, wanted if is_same else found, position)
        if standing is Standing.SAME:
            self._settle_again(newest)
            return answer_all(committables, Outcome.ALREADY, "the log has the evidence")
        if standing is not Standing.OPEN:
            return self._table.unknown(committables, in_words(standing, identity, wanted.epoch, position))
        properties = alone(encoded(identity, wanted, newest), ledger.transactions(identity, wanted))
        return self._add(table, rows, properties)

    def _show(self, table: DeltaTable, rows: _StagedEpoch) -> Sequence[Answer]:
        """Without evidence. A file that is added a second time under the same path is there once."""
        return self._add(table, rows, alone())

    # --- adding --------------------------------------------------------------------------------------------

    def _add(self, table: DeltaTable, rows: _StagedEpoch, properties: CommitProperties) -> Sequence[Answer]:
        committables = rows.committables
        if unfit := _unfit(self.sink, table, committables[0]):
            return answer_all(committables, Outcome.RETRY, f"{self.sink.place.folder}: {unfit}")
        flaws = list(side_by_side(self.sink.files.flaws, committables, at_least=2))
        if any(flaws):
            waiting = Answer(outcome=Outcome.RETRY, detail="not added: another file of this epoch is lost")
            return [_lost(each) if each else waiting for each in flaws]
        table.create_write_transaction(
            rows.change.actions(table),
            "append",
            table.schema(),
            table.metadata().partition_columns,
            commit_properties=properties,
            post_commithook_properties=NO_HOOKS,
        )
        self._settle(table.version() + 1)
        return answer_all(committables, Outcome.COMMITTED, "")

    def _until_alone(
        self, committables: Sequence[Committable], act: Callable[[DeltaTable, _StagedEpoch], Sequence[Answer]]
    ) -> Sequence[Answer]:
        if not committables:
            return []
        rows = _StagedEpoch.of(self.sink, committables)
        return self._table.until_alone(committables, lambda table: act(table, rows))

    @property
    def _table(self) -> TableCommits[DeltaTable]:
        place = self.sink.place
        return TableCommits(str(place.folder), place.table, CommitFailedError, TABLE_ERRORS, told)

    def _settle(self, version: int, doubtful: Iterable[int] = ()) -> None:
        folder = self.sink.place.log_folder()
        if folder is not None:
            sync_log(folder, version, doubtful)

    def _settle_again(self, newest: TableEvidence | None) -> None:
        """Make a commit durable that another process may have made: it may have died before its sync, or at it."""
        if newest is not None:
            first = (
                newest.version if newest.record is None or newest.record.before is None else newest.record.before + 1
            )
            self._settle(newest.version, range(first, newest.version + 1))


class _FileChange(Protocol):
    """What an epoch does to the files of a table."""

    def actions(self, table: DeltaTable) -> list[FileAction]:
        """What leaves this snapshot, and what comes into it: files with their final names. For each snapshot again."""
        ...


@dataclass(frozen=True, slots=True)
class _Appended:
    """The staged files become files of the table."""

    sink: DeclaredDeltaSink
    committables: Sequence[Committable]

    def actions(self, table: DeltaTable) -> list[FileAction]:
        self.sink.files.publish(self.committables)
        return added(sorted(self.committables, key=lambda committable: committable.attempt.task))


@dataclass(frozen=True, slots=True)
class _StagedEpoch:
    """The transactions of an epoch, and what they do to the table."""

    committables: Sequence[Committable]
    change: _FileChange

    @classmethod
    def of(cls, sink: DeclaredDeltaSink, committables: Sequence[Committable]) -> _StagedEpoch:
        replaces = bool(keyed_of(committables[0]).key)
        return cls(committables, Replacement(sink, committables) if replaces else _Appended(sink, committables))


def _unfit(sink: DeclaredDeltaSink, table: DeltaTable, committable: Committable) -> str | None:
    """Why the rows cannot be rows of the table as it is now, in words, or None."""
    partitions = table.metadata().partition_columns
    columns = columns_of(table)
    rows = fields_by_name(parsed(committable.handle["columns"], dict[str, Any]))
    properties, where = table.metadata().configuration, str(sink.place.folder)
    is_keyed = bool(keyed_of(committable).key)
    bound = list(expiring(properties, where))
    if is_keyed:
        bound += [*rules_against_rewriting(table, where), *rules_against_replacing(properties, where)]
    if bound:
        return bound[0].found
    if not is_keyed and (mine := list(values_in(parts_of(committable)[0].folder))) != list(partitions):
        return f"the table is partitioned by {list(partitions)}, the rows of the epoch by {mine}"
    if missing := sorted(rows.keys() - columns.keys()):
        return f"the table lacks {missing}"
    flaws = (flaw for name in rows for flaw in flaws_of(rows[name]["type"], columns[name]["type"], name))
    return next((f"{path!r} is {wanted} in the rows, {held} in the table" for path, wanted, held in flaws), None)


def _lost(flaws: Mapping[int, str]) -> Answer:
    return Answer(outcome=Outcome.LOST, detail="; ".join(flaws.values()))


def forget(place: TablePlace, identity: SinkIdentity) -> None:
    """Remove the evidence of a job id from the table, of every generation. Raises `TABLE_ERRORS`."""
    for tries_left in reversed(range(TRIES)):
        table = place.table()
        gone = [] if table is None else TableLedger(place, table).without(identity)
        if table is None or not gone:
            return
        try:
            table.create_write_transaction(
                [],
                "append",
                table.schema(),
                table.metadata().partition_columns,
                commit_properties=alone(transactions=gone),
                post_commithook_properties=NO_HOOKS,
            )
        except CommitFailedError:
            if not tries_left:
                raise
            continue
        folder = place.log_folder()
        if folder is not None:
            sync_log(folder, table.version() + 1)
        return
