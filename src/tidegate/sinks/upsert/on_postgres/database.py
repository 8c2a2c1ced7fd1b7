"""Upserts into a table of PostgreSQL.

A task copies its rows into a stage, as `PostgresSink` does, and takes them into the table at its pre-commit. Copy and
upsert are one transaction, which drops the stage again. So no other session sees the stage, and nothing of it is left.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import psycopg

from tidegate.core.records import Answer, Attempt, Committable
from tidegate.sinks.base import Transaction
from tidegate.sinks.postgres.committer import PostgresCommitter
from tidegate.sinks.postgres.declared import qualified
from tidegate.sinks.postgres.merge import take
from tidegate.sinks.postgres.server import Session, reached, run, transaction
from tidegate.sinks.postgres.shape import DELETED, ROW
from tidegate.sinks.postgres.sink import PostgresSink
from tidegate.sinks.postgres.table import table_of
from tidegate.sinks.postgres.transaction import PostgresTransaction
from tidegate.sinks.postgres.words import told
from tidegate.sinks.sql_names import list_of, quoted
from tidegate.sinks.stamps import place_of_run
from tidegate.sinks.upsert.committer import UpsertCommitter
from tidegate.sinks.upsert.database import TASK_LOCK_SECONDS, UpsertDatabase
from tidegate.sinks.upsert.fences import Fences, short_owner_of
from tidegate.sinks.upsert.session import UpsertSession
from tidegate.sinks.upsert.stamps_table import GONE, OWNER, PLACE
from tidegate.sinks.upsert.transaction import UpsertTransaction


class PostgresUpsertSession(UpsertSession):
    """`schema`: of the target."""

    shared: ClassVar[str] = "FOR SHARE"
    alone: ClassVar[str] = "FOR UPDATE"
    word: ClassVar[str] = 'text COLLATE "C"'
    text: ClassVar[str] = "text"

    def __init__(self, connection: Session, schema: str) -> None:
        self.connection = connection
        self._schema = schema

    def run(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        cursor = run(self.connection, statement, values or None)
        return cursor.fetchall() if cursor.description else []

    def transaction(self) -> AbstractContextManager[None]:
        return transaction(self.connection)

    def own(self, table: str) -> str:
        return f"{quoted(self._schema)}.{quoted(table)}"

    def quoted(self, name: str) -> str:
        return quoted(name)

    def has(self, table: str) -> bool:
        return table_of(self.connection, self._schema, table) is not None


class PostgresUpserts(UpsertDatabase):
    """A table of PostgreSQL."""

    word: ClassVar[str] = "postgres"

    def __init__(self, sink: PostgresSink) -> None:
        super().__init__(sink.table, sink.key, sink.deleted)
        self._sink = sink

    @property
    def inner(self) -> PostgresSink:
        return self._sink

    @property
    def place(self) -> str:
        return f"schema {self._sink.schema!r}, {self._sink.server}"

    @contextmanager
    def connected(self) -> Generator[PostgresUpsertSession]:
        with self._sink.server.connected() as connection:
            yield PostgresUpsertSession(connection, self._sink.schema)

    @contextmanager
    def reached(self) -> Generator[PostgresUpsertSession]:
        with reached(self._sink.server, self._sink.uid) as connection:
            yield PostgresUpsertSession(connection, self._sink.schema)

    def is_error(self, error: Exception) -> bool:
        return isinstance(error, psycopg.Error)

    def told(self, error: Exception) -> str:
        return told(error) if isinstance(error, psycopg.Error) else str(error)

    def create_tables(self, session: UpsertSession) -> None:
        for is_last in (False, True):
            try:
                with session.transaction():
                    self._create(session)
            except (psycopg.errors.UniqueViolation, psycopg.errors.DuplicateTable):
                if is_last:  # another driver has created them meanwhile: IF NOT EXISTS fails at the end then
                    raise
            else:
                return

    def _create(self, session: UpsertSession) -> None:
        table, stamps = self._sink.rules.table, self.stamps(session)
        Fences(session).create()
        columns = [] if table is None else table.of(self.key)
        declared = [
            f"{quoted(each.name)} {each.declared}{f' COLLATE {each.collation}' if each.collation else ''}"
            for each in columns
        ]
        session.run(f"CREATE TABLE IF NOT EXISTS {stamps.in_sql} ({stamps.declared(declared)})")
        session.run(f"CREATE INDEX IF NOT EXISTS {stamps.index} ON {stamps.in_sql} ({PLACE}) WHERE {GONE} = 1")

    def begin(self, attempt: Attempt) -> Transaction:
        return StagedInPostgres(self, attempt)

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        return PostgresUpsertCommitter(self._sink).commit(committables)

    # --- paused tasks --------------------------------------------------------------------------------------

    def hurry(self, session: UpsertSession) -> None:
        session.run("SELECT pg_catalog.set_config('lock_timeout', '1s', true)")

    def is_of_a_lock(self, error: Exception) -> bool:
        return isinstance(error, psycopg.errors.LockNotAvailable)

    def end_writers(self, session: UpsertSession, owner: str, before: str) -> None:
        writers = session.run(
            "SELECT pid, application_name FROM pg_catalog.pg_stat_activity"
            " WHERE datname = pg_catalog.current_database() AND pg_catalog.starts_with(application_name, %s)",
            (_writer(owner, ""),),
        )
        for pid, name in writers:
            if name < _writer(owner, before):
                session.run("SELECT pg_catalog.pg_terminate_backend(%s)", (pid,))


class StagedInPostgres(PostgresTransaction):
    """Copies the rows of one attempt, and takes them into the table at the pre-commit."""

    kind: ClassVar[str] = "UNLOGGED TABLE"

    def __init__(self, database: PostgresUpserts, attempt: Attempt) -> None:
        super().__init__(database.inner, attempt)
        self._database = database

    def _make_durable(self, connection: Session, digest: str) -> Mapping[str, str]:
        session, sink = PostgresUpsertSession(connection, self._sink.schema), self._attempt.sink
        writer = _writer(short_owner_of(sink), place_of_run(sink.generation, self._attempt.run))
        session.run("SELECT pg_catalog.set_config('application_name', %s, true)", (writer,))
        session.run(f"SELECT pg_catalog.set_config('lock_timeout', '{TASK_LOCK_SECONDS}s', true)")
        _TakenByPostgres(self._database, session, self._attempt, self._stage).take(digest)
        session.run(f"DROP TABLE {qualified(self._sink, self._stage)}")
        session.run("COMMIT")
        return {}


class _TakenByPostgres(UpsertTransaction):
    """`stage`: the name of the table with the rows."""

    def __init__(self, database: PostgresUpserts, session: PostgresUpsertSession, attempt: Attempt, stage: str) -> None:
        super().__init__(database.stamps(session), attempt, database.where)
        self._connection = session.connection
        self._sink = database.inner
        self._name = stage
        self._stage = session.own(stage)

    def _write_stamps(self) -> None:
        key = list_of(self._stamps.key)
        gone = "NULL" if self._sink.deleted is None else f"CASE WHEN {DELETED} THEN 1 END"
        self._session.run(
            f"INSERT INTO {self._stamps.in_sql} AS held ({key}, {OWNER}, {PLACE}, {GONE})"
            f" SELECT DISTINCT ON ({key}) {key}, '{self._owner}', {self._place_of_row()}, {gone}"
            f" FROM {self._stage} AS staged ORDER BY {key}, {ROW} DESC ON CONFLICT ({key}) DO UPDATE"
            f" SET {PLACE} = excluded.{PLACE}, {GONE} = excluded.{GONE}"
            f" WHERE held.{PLACE} <= excluded.{PLACE}"
        )

    def _staged(self) -> str:
        return f"{self._stage} AS staged"

    def _write_rows(self) -> None:
        self._session.run(
            f"DELETE FROM {self._stage} AS staged WHERE NOT EXISTS (SELECT 1 FROM {self._stamps.in_sql} held"
            f" WHERE {self._stamps.same_key('staged.')} AND held.{PLACE} = {self._place_of_row()})"
        )
        take(self._connection, self._sink, self._name)

    def _place_of_row(self) -> str:
        row = f"staged.{ROW}::text"
        return f"'{self._place}' || pg_catalog.lpad(pg_catalog.length({row})::text, 2, '0') || {row}"


@dataclass(frozen=True, slots=True)
class PostgresUpsertCommitter(PostgresCommitter):
    """The rows are in the table already: a commit looks for their marks, and leaves the evidence."""

    def take_all(self, connection: Session, committables: Sequence[Committable], counted: bool) -> None:
        UpsertCommitter(PostgresUpsertSession(connection, self.sink.schema)).finish(committables)

    def lost(self, connection: Session, committables: Sequence[Committable], counts: bool) -> list[Answer]:
        return UpsertCommitter(PostgresUpsertSession(connection, self.sink.schema)).lost(committables)


def _writer(owner: str, place: str) -> str:
    """The name of a backend that takes rows for a run. It has room for 63 bytes."""
    return f"tidegate {owner[:11]} {place}"
