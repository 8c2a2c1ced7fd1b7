"""The commit phase of a SQLite sink, on a driver: one transaction takes the stages of an epoch and records it in the
ledger.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tidegate.core.records import Answer, Attempt, Committable, Evidence, Outcome
from tidegate.sinks.base import answer_all
from tidegate.sinks.sql_names import list_of, quoted
from tidegate.sinks.sqlite.conflicts import Inserts
from tidegate.sinks.sqlite.declared import DeclaredSQLiteSink
from tidegate.sinks.sqlite.disk import connected, make_durable, transaction
from tidegate.sinks.sqlite.ledger import entry_of, newest_of, record
from tidegate.sinks.sqlite.stage import attached, names_in
from tidegate.sinks.staging import Seal, StagedFiles
from tidegate.sinks.standing import PROVES, Entry, Standing, in_words, standing_of_epoch, standing_of_one

_Answers = list[Answer]
_LOG = logging.getLogger("tidegate")


@dataclass(frozen=True, slots=True)
class SQLiteCommitter:
    """Takes prepared stages into the table of a sink, and finds out which of them were taken."""

    sink: DeclaredSQLiteSink
    stage: StagedFiles

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        if not committables:
            return []
        try:
            return self._commit(committables)
        except (sqlite3.Error, OSError) as error:
            # locked, full, missing, no rights: each of these can be repaired
            return answer_all(committables, Outcome.RETRY, f"{self.sink.path}: {error}")

    def commit_straight(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        in_task_order = sorted(committables, key=lambda committable: committable.attempt.task)
        try:
            with connected(self.sink.path) as target:
                lost = self._lost(in_task_order)
                if lost:
                    return lost
                with attached(target, self._stages(in_task_order)) as schemas, transaction(target):
                    self._insert(target, schemas, in_task_order[0].attempt)
        except (sqlite3.Error, OSError) as error:
            return answer_all(committables, Outcome.RETRY, f"{self.sink.path}: {error}")
        return answer_all(committables, Outcome.COMMITTED, "")

    def evidence(self, committable: Committable) -> Evidence:
        attempt = committable.attempt
        try:
            with connected(self.sink.path) as target:
                newest = newest_of(target, attempt.sink)
                found = entry_of(target, attempt.sink, attempt.epoch)
                standing = standing_of_one(committable, found, newest)
                if standing is Standing.SAME and found is not None:
                    make_durable(target, self.sink.path, attempt.sink, found)
        except (sqlite3.Error, OSError):
            return Evidence.UNKNOWN
        return PROVES[standing]

    # --- the one transaction -------------------------------------------------------------------------------

    def _commit(self, committables: Sequence[Committable]) -> _Answers:
        in_task_order = sorted(committables, key=lambda committable: committable.attempt.task)
        with connected(self.sink.path) as target:
            # First read the stage, then the ledger. This order reveals a commit and clean-up of another process in
            # between.
            lost = self._lost(committables)
            standing = standing_in(target, committables)
            if standing is Standing.OPEN and lost:
                return lost
            if standing is Standing.OPEN:
                standing = self._take(target, in_task_order)
            if standing is Standing.SAME:
                make_durable(target, self.sink.path, committables[0].attempt.sink, Entry.of(committables))
            return self._answer(target, committables, standing)

    def _take(self, target: sqlite3.Connection, in_task_order: Sequence[Committable]) -> Standing:
        """Take the staged rows into the table. Returns the state of the epoch after the write lock was taken."""
        with attached(target, self._stages(in_task_order)) as schemas, transaction(target):
            standing = standing_in(target, in_task_order)
            if standing is Standing.OPEN:
                self._insert(target, schemas, in_task_order[0].attempt)
                record(target, in_task_order[0].attempt.sink, Entry.of(in_task_order))
            return standing

    def _insert(self, target: sqlite3.Connection, schemas: Sequence[str], attempt: Attempt) -> None:
        sink, upsert = self.sink, self._upsert(names_in(target, schemas[0]))
        inserts = Inserts(
            target, sink.table, attempt, upsert=upsert, policy=sink.on_conflict, letters=sink.conflicts_into
        )
        conflicts = sum(inserts.take(schema) for schema in schemas)
        if conflicts:
            _LOG.warning(
                "sink %s: %d rows of epoch %d break a UNIQUE index of table %s: %s",
                *(sink.uid, conflicts, attempt.epoch, sink.table, sink.on_conflict.becomes),
                extra={"event": "RowConflicts", "epoch": attempt.epoch},
            )

    def _upsert(self, names: Sequence[str]) -> str:
        key = self.sink.key
        if not key:
            return ""
        others = [f"{quoted(name)} = excluded.{quoted(name)}" for name in names if name not in key]
        action = f"DO UPDATE SET {', '.join(others)}" if others else "DO NOTHING"
        return f"ON CONFLICT ({list_of(key)}) {action}"

    def _stages(self, committables: Sequence[Committable]) -> list[Path]:
        return [self.stage.file(committable.attempt) for committable in committables]

    def _lost(self, committables: Sequence[Committable]) -> _Answers:
        """An answer for each committable if at least one has lost its stage; otherwise an empty list."""
        flaws = [Seal.carried_by(each).flaw_of(self.stage.file(each.attempt)) for each in committables]
        if not any(flaws):
            return []
        waiting = Answer(outcome=Outcome.RETRY, detail="not taken: another stage of this epoch is lost")
        return [Answer(outcome=Outcome.LOST, detail=flaw) if flaw else waiting for flaw in flaws]

    def _answer(self, target: sqlite3.Connection, committables: Sequence[Committable], standing: Standing) -> _Answers:
        if standing is Standing.OPEN:
            return answer_all(committables, Outcome.COMMITTED, "")
        if standing is Standing.SAME:
            return answer_all(committables, Outcome.ALREADY, "the ledger row is there")
        attempt = committables[0].attempt
        told = in_words(standing, attempt.sink, attempt.epoch, newest_of(target, attempt.sink))
        return answer_all(committables, Outcome.UNKNOWN, f"{self.sink.path}: {told}")


def standing_in(target: sqlite3.Connection, committables: Sequence[Committable]) -> Standing:
    """What the ledger proves about all transactions of an epoch."""
    wanted, identity = Entry.of(committables), committables[0].attempt.sink
    return standing_of_epoch(wanted, entry_of(target, identity, wanted.epoch), newest_of(target, identity))
