"""The SQLite sink: each task stages its rows in a file of its own; one transaction in the target takes all of them."""

from __future__ import annotations

import dataclasses
import logging
import os
import secrets
import sqlite3
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import ClassVar

import msgspec
import pyarrow as pa

from tidegate.core.errors import Code, TidegateError
from tidegate.core.health import Finding
from tidegate.core.levels import Level
from tidegate.core.records import (
    Answer,
    Attempt,
    Committable,
    Evidence,
    Outcome,
    Position,
    SinkIdentity,
)
from tidegate.disk.durable import ensure_folder, sync_folder
from tidegate.sinks.arrow import fields_of
from tidegate.sinks.base import JournalKeeper, SinkPlan, Transaction, TwoPhaseSink, answer_all
from tidegate.sinks.row_values import InvalidText, NaN, option_of
from tidegate.sinks.rows import RowRefused
from tidegate.sinks.sqlite.check import violations_of
from tidegate.sinks.sqlite.conflicts import Inserts, OnConflict, unfit_policy
from tidegate.sinks.sqlite.constraints import constraints_of
from tidegate.sinks.sqlite.described import SQLiteTarget, probed
from tidegate.sinks.sqlite.disk import connected, make_durable, transaction
from tidegate.sinks.sqlite.ledger import CREATE_LEDGER, entry_of, newest_of, record, remove
from tidegate.sinks.sqlite.names import list_of, quoted
from tidegate.sinks.sqlite.stage import ATTACHED_AT_ONCE, SQLiteTransaction, attach, fold, names_in
from tidegate.sinks.sqlite.values import SQLiteRules, affinity_of
from tidegate.sinks.sqlite.words import remedy_of
from tidegate.sinks.staging import Seal, StagedFiles
from tidegate.sinks.standing import PROVES, Entry, Standing, in_words, standing_of_epoch, standing_of_one

_Answers = list[Answer]
_LOG = logging.getLogger("tidegate")


class SQLiteSink(TwoPhaseSink):
    """Rows into one table of a SQLite database, exactly once.

    Without `key` rows are appended. With `key` a row replaces the row with the same values in these columns (the last
    row wins, in the order of tasks and rows). A missing table is created. An epoch becomes visible in ONE transaction,
    together with its row in the table `_tidegate_ledger`, which is the evidence. For the values see
    `tidegate.sinks.sqlite.values`.

    A row that breaks a NOT NULL or CHECK of the table is refused in its task. A row that breaks a UNIQUE index is found
    at the commit: it ends the job (`on_conflict="fail"`), or is left out ("ignore"), or goes into the table of the
    query's dead letters ("dead-letter": the same database). A row with a text that is not UTF-8 is refused
    (`invalid_text="refuse"`), or each such part becomes U+FFFD ("replace"). SQLite has no NaN: a row with one is
    refused (`nan="refuse"`), or the value becomes NULL ("null"). The database's journal mode stays unchanged.

    Rows are staged in `<path>.tidegate/`, on the same disk. Only for sessions whose tasks run on this machine.
    """

    journal: ClassVar[JournalKeeper] = JournalKeeper.STAGE
    levels: ClassVar[frozenset[Level]] = frozenset(Level)

    def __init__(
        self,
        uid: str,
        path: str | os.PathLike[str],
        *,
        table: str,
        key: Sequence[str] | str | None = None,
        invalid_text: str = "refuse",
        nan: str = "refuse",
        on_conflict: str = "fail",
        select: Sequence[object] | None = None,
        where: object = None,
        delivery: str | None = None,
    ) -> None:
        super().__init__(uid, select=select, where=where, delivery=delivery)
        self.path = Path(os.path.abspath(path))
        self.table = table
        self.key = (key,) if isinstance(key, str) else tuple(key or ())
        self.rules = SQLiteRules(
            self.key,
            option_of(InvalidText, "invalid_text", invalid_text, uid),
            option_of(NaN, "nan", nan, uid),
        )
        self.on_conflict = option_of(OnConflict, "on_conflict", on_conflict, uid)
        self.conflicts_into: str | None = None
        """The table of the same database that takes rows with a conflict: that of the query's dead letters."""
        self._stage = StagedFiles(self.path.with_name(f"{self.path.name}.tidegate"), ".stage")

    # --- opened without the program --------------------------------------------------------------------------

    kind: ClassVar[str] = "sqlite"

    def describe(self) -> Mapping[str, object]:
        target = SQLiteTarget(
            path=str(self.path),
            table=self.table,
            key=self.key,
            invalid_text=self.rules.invalid_text.value,
            nan=self.rules.nan.value,
            on_conflict=self.on_conflict.value,
            conflicts_into=self.conflicts_into,
        )
        return msgspec.to_builtins(target)

    @classmethod
    def from_description(
        cls, uid: str, described: Mapping[str, object], options: Mapping[str, str], delivery: str
    ) -> TwoPhaseSink:
        target = msgspec.convert(described, SQLiteTarget)
        sink = cls(
            uid,
            target.path,
            table=target.table,
            key=target.key,
            invalid_text=target.invalid_text,
            nan=target.nan,
            on_conflict=target.on_conflict,
            delivery=delivery,
        )
        sink.conflicts_into = target.conflicts_into
        return sink

    @classmethod
    def told(cls, described: Mapping[str, object]) -> str:
        return str(msgspec.convert(described, SQLiteTarget))

    def probe(self, what: str, plan: SinkPlan) -> Sequence[Finding]:
        return [probed(self.path, what)]

    # --- before a query starts -----------------------------------------------------------------------------

    def check(self, plan: SinkPlan) -> Sequence[TidegateError]:
        found = violations_of(plan, self.path, self.table, self.key)
        unfit = unfit_policy(self.uid, self.on_conflict, self.key, self.conflicts_into)
        return found if unfit is None else [*found, unfit]

    def open(self, plan: SinkPlan) -> None:
        ensure_folder(self._stage.root)
        columns = [f"{quoted(field.name)} {affinity_of(field.type)}" for field in fields_of(plan.schema)]
        if self.key:
            columns.append(f"PRIMARY KEY ({list_of(self.key)})")
        try:
            with self._target("rwc") as target:
                target.execute(f"CREATE TABLE IF NOT EXISTS {quoted(self.table)} ({', '.join(columns)})")
                target.execute(CREATE_LEDGER)
        except sqlite3.Error as error:
            raise self._unusable(error) from None
        sync_folder(self.path.parent)

    def position(self, identity: SinkIdentity) -> Position | None:
        if not self.path.exists():
            return None
        try:
            with self._target() as target:
                return newest_of(target, identity)
        except sqlite3.Error as error:
            raise self._unusable(error) from None

    # --- in a task -----------------------------------------------------------------------------------------

    def in_epoch(self, finished_through: int) -> TwoPhaseSink:
        """With the current constraints of the table. If they cannot be read now, with the constraints of the last
        read.
        """
        with suppress(sqlite3.Error), self._target() as target:
            self.rules = dataclasses.replace(self.rules, constraints=constraints_of(target, self.table))
        return self

    def refused(self, batch: pa.RecordBatch) -> Sequence[RowRefused]:
        return self.rules.refused(batch)

    def begin(self, attempt: Attempt) -> Transaction:
        return SQLiteTransaction(self._stage, attempt, self.rules)

    # --- the commit phase, on a driver ---------------------------------------------------------------------

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        if not committables:
            return []
        try:
            return self._commit(committables)
        except (sqlite3.Error, OSError) as error:
            # locked, full, missing, no rights: each of these can be repaired
            return answer_all(committables, Outcome.RETRY, f"{self.path}: {error}")

    def commit_straight(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        in_task_order = sorted(committables, key=lambda committable: committable.attempt.task)
        try:
            with self._target() as target:
                lost = self._lost(in_task_order)
                if lost:
                    return lost
                with self._attached(target, in_task_order) as schemas, transaction(target):
                    self._insert(target, schemas, in_task_order[0].attempt)
        except (sqlite3.Error, OSError) as error:
            return answer_all(committables, Outcome.RETRY, f"{self.path}: {error}")
        return answer_all(committables, Outcome.COMMITTED, "")

    def evidence(self, committable: Committable) -> Evidence:
        attempt = committable.attempt
        try:
            with self._target() as target:
                newest = newest_of(target, attempt.sink)
                found = entry_of(target, attempt.sink, attempt.epoch)
                standing = standing_of_one(committable, found, newest)
                if standing is Standing.SAME and found is not None:
                    make_durable(target, self.path, attempt.sink, found)
        except (sqlite3.Error, OSError):
            return Evidence.UNKNOWN
        return PROVES[standing]

    # --- clean-up, on a driver -----------------------------------------------------------------------------

    def clean(self, identity: SinkIdentity, finished_through: int) -> None:
        self._stage.clean(identity, finished_through)

    def discard(self, identity: SinkIdentity, from_epoch: int) -> int:
        return self._stage.discard(identity, from_epoch)

    def forget(self, identity: SinkIdentity) -> None:
        if not self.path.exists():
            return
        try:
            with self._target() as target, transaction(target):
                remove(target, identity)
        except sqlite3.Error as error:
            raise self._unusable(error) from None

    # --- the one transaction -------------------------------------------------------------------------------

    def _commit(self, committables: Sequence[Committable]) -> _Answers:
        in_task_order = sorted(committables, key=lambda committable: committable.attempt.task)
        with self._target() as target:
            # First read the stage, then the ledger. This order reveals a commit and clean-up of another process in
            # between.
            lost = self._lost(committables)
            standing = self._standing(target, committables)
            if standing is Standing.OPEN and lost:
                return lost
            if standing is Standing.OPEN:
                standing = self._take(target, in_task_order)
            if standing is Standing.SAME:
                make_durable(target, self.path, committables[0].attempt.sink, Entry.of(committables))
            return self._answer(target, committables, standing)

    def _take(self, target: sqlite3.Connection, in_task_order: Sequence[Committable]) -> Standing:
        """Take the staged rows into the table. Returns the state of the epoch after the write lock was taken."""
        with self._attached(target, in_task_order) as schemas, transaction(target):
            standing = self._standing(target, in_task_order)
            if standing is Standing.OPEN:
                self._insert(target, schemas, in_task_order[0].attempt)
                record(target, in_task_order[0].attempt.sink, Entry.of(in_task_order))
            return standing

    def _insert(self, target: sqlite3.Connection, schemas: Sequence[str], attempt: Attempt) -> None:
        policy, upsert = self.on_conflict, self._upsert(names_in(target, schemas[0]))
        inserts = Inserts(target, self.table, attempt, upsert=upsert, policy=policy, letters=self.conflicts_into)
        conflicts = sum(inserts.take(schema) for schema in schemas)
        if conflicts:
            _LOG.warning(
                "sink %s: %d rows of epoch %d break a UNIQUE index of table %s: %s",
                *(self.uid, conflicts, attempt.epoch, self.table, policy.becomes),
                extra={"event": "RowConflicts", "epoch": attempt.epoch},
            )

    def _upsert(self, names: Sequence[str]) -> str:
        if not self.key:
            return ""
        others = [f"{quoted(name)} = excluded.{quoted(name)}" for name in names if name not in self.key]
        action = f"DO UPDATE SET {', '.join(others)}" if others else "DO NOTHING"
        return f"ON CONFLICT ({list_of(self.key)}) {action}"

    @contextmanager
    def _attached(self, target: sqlite3.Connection, in_task_order: Sequence[Committable]) -> Generator[list[str]]:
        stages = [self._stage.file(committable.attempt) for committable in in_task_order]
        if len(stages) <= ATTACHED_AT_ONCE:
            yield attach(target, stages)
            return
        # Before the write lock is taken. The file stands beside the stages: a temporary folder may be too small.
        folded = stages[0].with_name(f"folded-{os.getpid()}-{secrets.token_hex(4)}.tmp")
        try:
            fold(stages, folded)
            yield attach(target, [folded])
        finally:
            folded.unlink(missing_ok=True)

    def _standing(self, target: sqlite3.Connection, committables: Sequence[Committable]) -> Standing:
        wanted, identity = Entry.of(committables), committables[0].attempt.sink
        return standing_of_epoch(wanted, entry_of(target, identity, wanted.epoch), newest_of(target, identity))

    def _lost(self, committables: Sequence[Committable]) -> _Answers:
        """An answer for each committable if at least one has lost its stage; otherwise an empty list."""
        flaws = [Seal.carried_by(each).flaw_of(self._stage.file(each.attempt)) for each in committables]
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
        return answer_all(committables, Outcome.UNKNOWN, f"{self.path}: {told}")

    # --- the target ----------------------------------------------------------------------------------------

    def _target(self, mode: str = "rw") -> AbstractContextManager[sqlite3.Connection]:
        return connected(self.path, mode)

    def _unusable(self, error: sqlite3.Error) -> TidegateError:
        return TidegateError(
            Code.SINK_UNUSABLE,
            expected="a SQLite database that can be opened and written",
            found=str(error),
            where=f"sink {self.uid!r}: {self.path}",
            next_step=remedy_of(error, self.path),
        )
