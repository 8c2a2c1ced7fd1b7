"""Upserts into a table of SQLite.

A task stages its rows in a file, as `SQLiteSink` does, and takes them into the table at its pre-commit, in one
transaction. BEGIN IMMEDIATE takes SQLite's one lock for writers: so nothing changes between the look at the fence and
the commit. SQLite cannot end the transaction of a paused process. A start then stops with the name of the database. The
process runs on this machine, and the lock of the file names it.
"""

from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import Answer, Attempt, Committable, committable_digest
from tidegate.core.redaction import SECRETS
from tidegate.sinks.arrow import fields_of
from tidegate.sinks.base import SinkPlan, Transaction
from tidegate.sinks.keyed import unfit_mark
from tidegate.sinks.refusals import mark_without_key
from tidegate.sinks.rows import RowRefused
from tidegate.sinks.sql_names import list_of, quoted
from tidegate.sinks.sqlite.committer import SQLiteCommitter, standing_in
from tidegate.sinks.sqlite.disk import connected, reached, transaction
from tidegate.sinks.sqlite.ledger import record
from tidegate.sinks.sqlite.sink import SQLiteSink
from tidegate.sinks.sqlite.stage import attached, names_in, positions
from tidegate.sinks.sqlite.transaction import SQLiteTransaction
from tidegate.sinks.sqlite.words import remedy_of
from tidegate.sinks.staging import Seal
from tidegate.sinks.standing import Entry, Standing
from tidegate.sinks.upsert.committer import UpsertCommitter
from tidegate.sinks.upsert.database import TASK_LOCK_SECONDS, UpsertDatabase
from tidegate.sinks.upsert.fences import Fences
from tidegate.sinks.upsert.marked_rules import MarkedRules
from tidegate.sinks.upsert.session import UpsertSession
from tidegate.sinks.upsert.stamps_table import GONE, OWNER, PLACE
from tidegate.sinks.upsert.transaction import UpsertTransaction


class SQLiteUpsertSession(UpsertSession):
    """BEGIN IMMEDIATE keeps all other writers out, so no statement locks rows."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def run(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        prepared = statement.replace("%s", "?") if values else statement
        return self.connection.execute(prepared, tuple(values)).fetchall()

    def transaction(self) -> AbstractContextManager[None]:
        return transaction(self.connection)

    def own(self, table: str) -> str:
        return f"main.{quoted(table)}"

    def quoted(self, name: str) -> str:
        return quoted(name)

    def has(self, table: str) -> bool:
        return bool(self.run("SELECT 1 FROM main.sqlite_master WHERE name = %s", (table,)))


class SQLiteUpserts(UpsertDatabase):
    """A table of SQLite."""

    word: ClassVar[str] = "sqlite"

    def __init__(self, sink: SQLiteSink, deleted: str | None) -> None:
        super().__init__(sink.table, sink.key, deleted)
        self._sink = sink
        if deleted is not None:
            sink.rules = MarkedRules(sink.rules.key, sink.rules.invalid_text, sink.rules.nan, deleted=deleted)

    @property
    def inner(self) -> SQLiteSink:
        return self._sink

    @property
    def place(self) -> str:
        return str(self._sink.path)

    @property
    def is_there(self) -> bool:
        return self._sink.path.exists()

    @contextmanager
    def connected(self) -> Generator[SQLiteUpsertSession]:
        with connected(self._sink.path) as connection:
            yield SQLiteUpsertSession(connection)

    @contextmanager
    def reached(self) -> Generator[SQLiteUpsertSession]:
        with reached(self._sink) as connection:
            yield SQLiteUpsertSession(connection)

    def is_error(self, error: Exception) -> bool:
        return isinstance(error, sqlite3.Error)

    def told(self, error: Exception) -> str:
        return SECRETS.hide(str(error))

    def plan_of(self, plan: SinkPlan) -> SinkPlan:
        kept = [field for field in fields_of(plan.schema) if field.name != self.deleted]
        return dataclasses.replace(plan, schema=pa.schema(kept))

    def violations(self, plan: SinkPlan) -> Sequence[TidegateError]:
        if self.deleted is None:
            return ()
        without = [mark_without_key(self.key, self.deleted, self.where)] if self.deleted in self.key else []
        return [*without, *unfit_mark(self.deleted, plan.schema, self.where)]

    def create_tables(self, session: UpsertSession) -> None:
        stamps = self.stamps(session)
        with session.transaction():
            Fences(session).create()
            columns = stamps.declared(_key_columns(session, self.table, self.key))
            session.run(f"CREATE TABLE IF NOT EXISTS {stamps.in_sql} ({columns})")
            session.run(
                f"CREATE INDEX IF NOT EXISTS main.{stamps.index} ON {quoted(stamps.name)} ({PLACE}) WHERE {GONE} = 1"
            )

    def begin(self, attempt: Attempt) -> Transaction:
        return StagedInSQLite(self, attempt)

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        return SQLiteUpsertCommitter(self._sink, self._sink.stage).commit(committables)


class StagedInSQLite(SQLiteTransaction):
    """Stages the rows of one attempt, and takes them into the table at the pre-commit."""

    def __init__(self, database: SQLiteUpserts, attempt: Attempt) -> None:
        super().__init__(database.inner.stage, attempt, database.inner.rules)
        self._database = database

    def pre_commit(self) -> Committable | None:
        if self._connection is None:
            return None
        self._connection.execute("COMMIT")
        self._connection.close()
        digest = committable_digest(self._attempt, Seal.of(self._file).checksum)
        try:
            self._take(digest)
        except sqlite3.Error as error:
            raise self._told(error) from None
        self._file.unlink(missing_ok=True)
        return Committable(attempt=self._attempt, rows=self._rows, digest=digest, handle={})

    def _take(self, digest: str) -> None:
        database = self._database
        with connected(database.inner.path) as target, attached(target, [self._file]) as (schema,):
            target.execute(f"PRAGMA busy_timeout = {TASK_LOCK_SECONDS * 1000}").close()
            session = SQLiteUpsertSession(target)
            merge = _TakenBySQLite(database, session, self._attempt, schema)
            with session.transaction():
                merge.take(digest)

    def _told(self, error: sqlite3.Error) -> TidegateError:
        path = self._database.inner.path
        if isinstance(error, sqlite3.IntegrityError):
            return RowRefused(
                expected="a row that the table's own constraints allow",
                found=SECRETS.hide(str(error)),
                next_step="change the values in select=[...], leave such rows out with where=, or correct the table;"
                " then start again",
            )
        return TidegateError(
            Code.SINK_UNUSABLE,
            expected="a SQLite database that can be opened and written, with the table as at the start",
            found=SECRETS.hide(str(error)),
            where=self._database.where,
            next_step=remedy_of(error, path),
        )


class _TakenBySQLite(UpsertTransaction):
    """`schema`: of the attached stage. Keys are compared as the table does, by the columns of the stamps."""

    def __init__(self, database: SQLiteUpserts, session: SQLiteUpsertSession, attempt: Attempt, schema: str) -> None:
        super().__init__(database.stamps(session), attempt, database.where)
        self._table = f"main.{quoted(database.table)}"
        names = names_in(session.connection, schema)
        self._column = dict(zip(names, positions(names), strict=True))
        self._flag = None if database.deleted is None else self._column.pop(database.deleted)
        self._rows = f"{schema}.rows"

    def _write_stamps(self) -> None:
        key = self._stamps.key
        gone = "NULL" if self._flag is None else f"CASE WHEN {self._flag} THEN 1 END"
        self._session.run(
            f"INSERT INTO {self._stamps.in_sql} AS held ({list_of(key)}, {OWNER}, {PLACE}, {GONE})"
            f" SELECT {self._staged_key()}, '{self._owner}', {self._place_of_row()}, {gone}"
            f" FROM {self._rows} AS rows WHERE true ORDER BY rows.rowid ON CONFLICT ({list_of(key)}) DO UPDATE"
            f" SET {PLACE} = excluded.{PLACE}, {GONE} = excluded.{GONE}"
            f" WHERE held.{PLACE} <= excluded.{PLACE}"
        )

    def _staged(self) -> str:
        columns = ", ".join(f"rows.{column} AS {quoted(name)}" for name, column in self._column.items())
        return f"(SELECT {columns}, {self._place_of_row()} AS {PLACE} FROM {self._rows} AS rows) staged"

    def _write_rows(self) -> None:
        key, names = self._stamps.key, list(self._column)
        stand = (
            f"{self._staged()} JOIN {self._stamps.in_sql} held ON {self._stamps.same_key('staged.')}"
            f" AND held.{OWNER} = '{self._owner}' AND held.{PLACE} = staged.{PLACE}"
        )
        if self._flag is not None:
            self._session.run(
                f"DELETE FROM {self._table} WHERE ({list_of(key)}) IN"
                f" (SELECT {self._session.all_of(key, 'held.')} FROM {stand} WHERE held.{GONE} = 1)"
            )
        others = [f"{quoted(name)} = excluded.{quoted(name)}" for name in names if name not in key]
        action = f"DO UPDATE SET {', '.join(others)}" if others else "DO NOTHING"
        self._session.run(
            f"INSERT INTO {self._table} ({list_of(names)}) SELECT {self._session.all_of(names, 'staged.')} FROM {stand}"
            f" WHERE held.{GONE} IS NULL ON CONFLICT ({list_of(key)}) {action}"
        )

    def _staged_key(self) -> str:
        return ", ".join(f"rows.{self._column[name]}" for name in self._stamps.key)

    def _place_of_row(self) -> str:
        return f"'{self._place}' || printf('%02d', length(rows.rowid)) || rows.rowid"


@dataclass(frozen=True, slots=True)
class SQLiteUpsertCommitter(SQLiteCommitter):
    """The rows are in the table already: a commit looks for their marks, and leaves the evidence."""

    def _take(self, target: sqlite3.Connection, in_task_order: Sequence[Committable]) -> Standing:
        with transaction(target):
            standing = standing_in(target, in_task_order)
            if standing is Standing.OPEN:
                UpsertCommitter(SQLiteUpsertSession(target)).finish(in_task_order)
                record(target, in_task_order[0].attempt.sink, Entry.of(in_task_order))
            return standing

    def _lost(self, committables: Sequence[Committable]) -> list[Answer]:
        with connected(self.sink.path) as target:
            return UpsertCommitter(SQLiteUpsertSession(target)).lost(committables)


def _key_columns(session: UpsertSession, table: str, key: Sequence[str]) -> list[str]:
    """The columns of the key as the table has them: type, and collation of its unique index."""
    types = {
        str(name).lower(): declared
        for name, declared in session.run("SELECT name, type FROM pragma_table_info(%s)", (table,))
    }
    collations: dict[str, str] = {}
    wanted = {name.lower() for name in key}
    for (index,) in session.run('SELECT name FROM pragma_index_list(%s) WHERE "unique" AND NOT partial', (table,)):
        parts = session.run("SELECT lower(name), coll FROM pragma_index_xinfo(%s) WHERE key", (index,))
        if {name for name, _ in parts} == wanted:
            collations = dict(parts)
    return [
        f"{quoted(name)} {types[name.lower()]} COLLATE {quoted(collations.get(name.lower(), 'BINARY'))}" for name in key
    ]
