"""The SQLite sink: each task stages its rows in a file of its own; one transaction in the target takes all of them."""

from __future__ import annotations

import dataclasses
import os
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import msgspec
import pyarrow as pa

from tidegate.core.errors import TidegateError
from tidegate.core.health import Finding
from tidegate.core.levels import Level
from tidegate.core.records import (
    Answer,
    Attempt,
    Committable,
    Evidence,
    Position,
    SinkIdentity,
)
from tidegate.disk.durable import ensure_folder, sync_folder
from tidegate.sinks.arrow import fields_of
from tidegate.sinks.base import JournalKeeper, SinkPlan, Transaction, TwoPhaseSink
from tidegate.sinks.promises import EPOCH_AT_ONCE, ROLLED_BACK_OR_WHOLE, Promise
from tidegate.sinks.row_values import InvalidText, NaN, option_of
from tidegate.sinks.rows import RowRefused
from tidegate.sinks.sql_names import list_of, quoted
from tidegate.sinks.sqlite.check import violations_of
from tidegate.sinks.sqlite.committer import SQLiteCommitter
from tidegate.sinks.sqlite.conflicts import OnConflict
from tidegate.sinks.sqlite.constraints import constraints_of
from tidegate.sinks.sqlite.described import SQLiteTarget, probed, target_of
from tidegate.sinks.sqlite.disk import connected, reached, transaction
from tidegate.sinks.sqlite.ledger import CREATE_LEDGER, newest_of, remove
from tidegate.sinks.sqlite.transaction import SQLiteTransaction
from tidegate.sinks.sqlite.values import SQLiteRules, affinity_of
from tidegate.sinks.staging import StagedFiles


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
    promises: ClassVar[Sequence[Promise]] = (
        Promise(
            readers_see=EPOCH_AT_ONCE,
            after_crash=ROLLED_BACK_OR_WHOLE,
            needs="all tasks and readers on the machine of the file",
        ),
    )

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
        self.stage = StagedFiles(self.path.with_name(f"{self.path.name}.tidegate"), ".stage")

    # --- opened without the program --------------------------------------------------------------------------

    kind: ClassVar[str] = "sqlite"

    def describe(self) -> Mapping[str, object]:
        return msgspec.to_builtins(target_of(self))

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
        return probed(self, what)

    # --- before a query starts -----------------------------------------------------------------------------

    def check(self, plan: SinkPlan) -> Sequence[TidegateError]:
        return violations_of(self, plan)

    def open(self, plan: SinkPlan) -> None:
        ensure_folder(self.stage.root)
        columns = [f"{quoted(field.name)} {affinity_of(field.type)}" for field in fields_of(plan.schema)]
        if self.key:
            columns.append(f"PRIMARY KEY ({list_of(self.key)})")
        with reached(self, "rwc") as target:
            target.execute(f"CREATE TABLE IF NOT EXISTS {quoted(self.table)} ({', '.join(columns)})")
            target.execute(CREATE_LEDGER)
        sync_folder(self.path.parent)

    def position(self, identity: SinkIdentity) -> Position | None:
        if not self.path.exists():
            return None
        with reached(self) as target:
            return newest_of(target, identity)

    # --- in a task -----------------------------------------------------------------------------------------

    def in_epoch(self, finished_through: int) -> TwoPhaseSink:
        """With the current constraints of the table. If they cannot be read now, with the constraints of the last
        read.
        """
        with suppress(sqlite3.Error), connected(self.path) as target:
            self.rules = dataclasses.replace(self.rules, constraints=constraints_of(target, self.table))
        return self

    def refused(self, batch: pa.RecordBatch) -> Sequence[RowRefused]:
        return self.rules.refused(batch)

    def begin(self, attempt: Attempt) -> Transaction:
        return SQLiteTransaction(self.stage, attempt, self.rules)

    # --- the commit phase, on a driver ---------------------------------------------------------------------

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        return self._committer.commit(committables)

    def commit_straight(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        return self._committer.commit_straight(committables)

    def evidence(self, committable: Committable) -> Evidence:
        return self._committer.evidence(committable)

    @property
    def _committer(self) -> SQLiteCommitter:
        return SQLiteCommitter(self, self.stage)

    # --- clean-up, on a driver -----------------------------------------------------------------------------

    def clean(self, identity: SinkIdentity, finished_through: int) -> None:
        self.stage.clean(identity, finished_through)

    def discard(self, identity: SinkIdentity, from_epoch: int) -> int:
        return self.stage.discard(identity, from_epoch)

    def forget(self, identity: SinkIdentity) -> None:
        if self.path.exists():
            with reached(self) as target, transaction(target):
                remove(target, identity)
