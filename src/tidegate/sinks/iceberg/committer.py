"""The commit phase of an Iceberg sink, on a driver: it publishes the files of an epoch, then names all of them in one
commit of the table, together with the evidence.

Why a commit is atomic with its evidence: the catalog replaces one metadata file by another one, which has both. Why it
happens once: the evidence is looked for in one state of the table, and the commit requires the `main` of this state
(`assert-ref-snapshot-id`). Of two drivers that saw the same state one is refused; it looks again, and finds the
evidence of the other one. The library's own tries behind a conflict are not used: they do not look. So other writers
make a commit look again, and nothing else; after `TRIES` the answer is RETRY.

Why that survives a power loss on a disk, where the library syncs nothing: the tasks have synced the files, `publish`
their names, and each metadata file is synced before the catalog points to it (`synced_io.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.table.update import AssertTableUUID, RemovePropertiesUpdate, SetPropertiesUpdate, TableUpdate

from tidegate.core.records import Answer, Committable, Evidence, Outcome, SinkIdentity, epoch_digest
from tidegate.disk.side_by_side import side_by_side
from tidegate.sinks.base import answer_all
from tidegate.sinks.data_files import DataFiles, data_files_of
from tidegate.sinks.iceberg.append import append, unfit
from tidegate.sinks.iceberg.declared import DeclaredIcebergSink
from tidegate.sinks.iceberg.ledger import SHOWN, SnapshotLedger, encoded
from tidegate.sinks.iceberg.place import CataloguedTable, Overtaken, TableError, folder_at
from tidegate.sinks.standing import PROVES, Entry, Standing, in_words, standing_of_epoch, standing_of_one
from tidegate.sinks.table_commits import TRIES, TableCommits

if TYPE_CHECKING:
    from pyiceberg.table import Table


@dataclass(frozen=True, slots=True)
class IcebergCommitter:
    """Adds prepared files to the table of a sink, and finds out which of them were added."""

    sink: DeclaredIcebergSink

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        if not committables:
            return []
        return self._table.until_alone(committables, lambda table: self._commit(table, committables))

    def commit_straight(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        if not committables:
            return []
        return self._table.until_alone(committables, lambda table: self._show(table, committables))

    def evidence(self, committable: Committable) -> Evidence:
        try:
            table = self.sink.place.read()
        except TableError:
            return Evidence.UNKNOWN
        if table is None or _is_another(table, committable):
            return Evidence.UNKNOWN
        attempt, ledger = committable.attempt, ledger_of(self.sink.place, table)
        if ledger.is_undone(attempt.sink):
            return Evidence.UNKNOWN
        found = ledger.entry_of(attempt.sink, attempt.epoch)
        if found is not None and not found.committables:
            return Evidence.PRESENT if found.digest == epoch_digest([committable]) else Evidence.UNKNOWN
        return PROVES[standing_of_one(committable, found, ledger.position(attempt.sink))]

    # --- looking -------------------------------------------------------------------------------------------

    def _commit(self, table: Table, committables: Sequence[Committable]) -> Sequence[Answer]:
        wanted, identity = Entry.of(committables), committables[0].attempt.sink
        if _is_another(table, committables[0]):
            return self._table.unknown(
                committables, "another table has its name; the rows were written for the older one"
            )
        ledger = ledger_of(self.sink.place, table)
        if ledger.is_undone(identity):
            return self._table.unknown(committables, "the table was rolled back behind committed epochs")
        found, position = ledger.entry_of(identity, wanted.epoch), ledger.position(identity)
        is_same = found is not None and found.position == wanted.position
        standing = standing_of_epoch(wanted, wanted if is_same else found, position)
        if standing is Standing.SAME:
            return answer_all(committables, Outcome.ALREADY, "the table has the evidence")
        if standing is not Standing.OPEN:
            return self._table.unknown(committables, in_words(standing, identity, wanted.epoch, position))
        return self._add(
            table,
            committables,
            encoded(identity, wanted),
            lambda snapshot, sequence: ledger.property_of(identity, wanted, snapshot, sequence),
            ledger.idle_marks(),
        )

    def _show(self, table: Table, committables: Sequence[Committable]) -> Sequence[Answer]:
        """Without evidence. A call that is repeated because its answer was lost adds nothing."""
        digest = epoch_digest(committables)
        if ledger_of(self.sink.place, table).has_shown(digest):
            return answer_all(committables, Outcome.COMMITTED, "")
        return self._add(table, committables, {SHOWN: digest}, _no_properties, ())

    # --- adding --------------------------------------------------------------------------------------------

    def _add(
        self,
        table: Table,
        committables: Sequence[Committable],
        summary: Mapping[str, str],
        properties: Callable[[int, int], Mapping[str, str]],
        without: Sequence[str],
    ) -> Sequence[Answer]:
        if reason := unfit(table, committables[0]):
            return self._table.later(committables, reason)
        files = files_at(committables[0].handle["location"])
        flaws = list(side_by_side(files.flaws, committables, at_least=2))
        if any(flaws):
            waiting = Answer(outcome=Outcome.RETRY, detail="not added: another file of this epoch is lost")
            return [_lost(each) if each else waiting for each in flaws]
        files.publish(committables)
        in_task_order = sorted(committables, key=lambda committable: committable.attempt.task)
        append(self.sink.place, table, in_task_order, summary, properties, without)
        return answer_all(committables, Outcome.COMMITTED, "")

    @property
    def _table(self) -> TableCommits[Table]:
        place = self.sink.place
        return TableCommits(str(place), place.read, Overtaken, (TableError,), str)


def ledger_of(place: CataloguedTable, table: Table) -> SnapshotLedger:
    """What this state of the table proves."""
    return SnapshotLedger(table.metadata, str(place))


def files_at(location: str) -> DataFiles:
    """Staged and published files of a table at this location."""
    return data_files_of(folder_at(location))


def forget(place: CataloguedTable, identity: SinkIdentity) -> None:
    """Remove the evidence of a job id from the table, of every generation. Raises TableError."""
    for tries_left in reversed(range(TRIES)):
        table = place.read()
        if table is None:
            return
        given, gone = ledger_of(place, table).forgetting(identity)
        if not given and not gone:
            return
        try:
            place.commit(table, _changing(given, gone), [AssertTableUUID(uuid=table.metadata.table_uuid)])
        except Overtaken as error:
            if not tries_left:
                raise TableError(str(error)) from None
            continue
        return


def _changing(given: Mapping[str, str], gone: Sequence[str]) -> list[TableUpdate]:
    """Updates that set and remove table properties."""
    set_ones: list[TableUpdate] = [SetPropertiesUpdate(updates=dict(given))] if given else []
    return [*set_ones, *([RemovePropertiesUpdate(removals=list(gone))] if gone else [])]


def _is_another(table: Table, committable: Committable) -> bool:
    return str(table.metadata.table_uuid) != committable.handle["table"]


def _no_properties(snapshot: int, sequence: int) -> Mapping[str, str]:
    return {}


def _lost(flaws: Mapping[int, str]) -> Answer:
    return Answer(outcome=Outcome.LOST, detail="; ".join(flaws.values()))
