"""Upserts into a table of MySQL or MariaDB.

A task writes its rows into a stage, as `MySQLSink` does, and commits it. At its pre-commit another transaction takes
them into the table, and is tried again if the server chooses it as the victim of a deadlock. Then the stage is dropped;
what a task leaves that has died is dropped when its epoch is finished.

How the connection of a paused task is found. MySQL shows no name of a connection to a user without special rights. So a
task holds a lock of its session (GET_LOCK) under a unique name, and writes the name into the table
`_tidegate_writers`. The server tells which connection holds a lock; a name without a holder is of a task that has died.
"""

from __future__ import annotations

import secrets
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from pymysql.err import MySQLError

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import Answer, Attempt, Committable, SinkIdentity
from tidegate.sinks.base import SinkPlan, Transaction
from tidegate.sinks.mysql.committer import MySQLCommitter
from tidegate.sinks.mysql.merge import take
from tidegate.sinks.mysql.names import DELETED, ROW, list_of, quoted
from tidegate.sinks.mysql.server import IDLE_SECONDS, MySQLSession, reached, run, run_exactly, transaction
from tidegate.sinks.mysql.sink import MySQLSink
from tidegate.sinks.mysql.table import ENGINE, table_of
from tidegate.sinks.mysql.transaction import MySQLTransaction
from tidegate.sinks.mysql.words import LOCK_TIMEOUT, code_of, told
from tidegate.sinks.mysql.xa_check import cluster_of
from tidegate.sinks.stamps import place_of_run
from tidegate.sinks.upsert.committer import UpsertCommitter
from tidegate.sinks.upsert.database import TASK_LOCK_SECONDS, UpsertDatabase
from tidegate.sinks.upsert.fences import Fences, short_owner_of
from tidegate.sinks.upsert.session import RESERVED, UpsertSession
from tidegate.sinks.upsert.stamps_table import GONE, OWNER, PLACE
from tidegate.sinks.upsert.transaction import UpsertTransaction

WRITERS = f"{RESERVED}writers"
_DEADLOCK = 1213
_NO_SUCH_THREAD = 1094
_TRIES = 10
_BEHIND_ALL = "~"
"""Behind all places, which are digits."""


class MySQLUpsertSession(UpsertSession):
    """A connection to a server."""

    shared: ClassVar[str] = "LOCK IN SHARE MODE"
    alone: ClassVar[str] = "FOR UPDATE"
    unless_there: ClassVar[str] = "ON DUPLICATE KEY UPDATE owner = owner"
    word: ClassVar[str] = "VARCHAR(190) CHARACTER SET ascii COLLATE ascii_bin"
    text: ClassVar[str] = "TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
    end_of_table: ClassVar[str] = f" ENGINE={ENGINE}"

    def __init__(self, connection: MySQLSession) -> None:
        self.connection = connection

    def run(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        return run(self.connection, statement, values or None)

    def transaction(self) -> AbstractContextManager[None]:
        return transaction(self.connection)

    def own(self, table: str) -> str:
        return quoted(table)

    def quoted(self, name: str) -> str:
        return quoted(name)

    def has(self, table: str) -> bool:
        return table_of(self.connection, table) is not None


class MySQLUpserts(UpsertDatabase):
    """A table of MySQL."""

    word: ClassVar[str] = "mysql"

    def __init__(self, sink: MySQLSink) -> None:
        super().__init__(sink.table, sink.key, sink.deleted)
        self._sink = sink

    @property
    def inner(self) -> MySQLSink:
        return self._sink

    @property
    def place(self) -> str:
        return str(self._sink.server)

    @contextmanager
    def connected(self) -> Generator[MySQLUpsertSession]:
        with self._sink.server.connected() as connection:
            yield MySQLUpsertSession(connection)

    @contextmanager
    def reached(self) -> Generator[MySQLUpsertSession]:
        with reached(self._sink.server, self._sink.uid) as connection:
            yield MySQLUpsertSession(connection)

    def is_error(self, error: Exception) -> bool:
        return isinstance(error, MySQLError)

    def told(self, error: Exception) -> str:
        return told(error) if isinstance(error, MySQLError) else str(error)

    def violations(self, plan: SinkPlan) -> Sequence[TidegateError]:
        with suppress(MySQLError, TidegateError), self._sink.server.connected() as connection:
            if clustered := cluster_of(connection):
                return [self._on_a_cluster(clustered)]
        return ()

    def _on_a_cluster(self, found: Sequence[str]) -> TidegateError:
        return TidegateError(
            Code.SINK_UNUSABLE,
            expected="a server of its own, or with replicas: a fence is a lock, and a cluster shares no locks",
            found=f"a cluster: {', '.join(found)}",
            where=self.where,
            next_step="use MySQLSink with the same key=, which is exactly-once",
        )

    def create_tables(self, session: UpsertSession) -> None:
        table, stamps = self._sink.rules.table, self.stamps(session)
        Fences(session).create()
        columns = [] if table is None else table.of(self.key)
        declared = [f"{each.in_sql.removesuffix('NULL')}NOT NULL" for each in columns]
        word, end = session.word, session.end_of_table
        session.run(
            f"CREATE TABLE IF NOT EXISTS {stamps.in_sql}"
            f" ({stamps.declared(declared)}, KEY ({GONE}, {OWNER}, {PLACE})){end}"
        )
        session.run(
            f"CREATE TABLE IF NOT EXISTS {WRITERS}"
            f" (name {word} NOT NULL PRIMARY KEY, owner {word} NOT NULL, place {word} NOT NULL){end}"
        )

    def begin(self, attempt: Attempt) -> Transaction:
        return StagedInMySQL(self, attempt)

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        return MySQLUpsertCommitter(self._sink).commit(committables)

    # --- paused tasks --------------------------------------------------------------------------------------

    def hurry(self, session: UpsertSession) -> None:
        session.run("SET SESSION innodb_lock_wait_timeout = 1")

    def is_of_a_lock(self, error: Exception) -> bool:
        return isinstance(error, MySQLError) and code_of(error) in (LOCK_TIMEOUT, _DEADLOCK)

    def end_writers(self, session: UpsertSession, owner: str, before: str) -> None:
        for name, holder in _writers(session, owner, before):
            if holder is not None:
                _kill(session, int(holder))
            session.run(f"DELETE FROM {WRITERS} WHERE name = %s", (name,))

    def clean(self, identity: SinkIdentity, finished_through: int) -> None:
        """Removes also the names of tasks that have died. A name is written by the holder of its lock."""
        super().clean(identity, finished_through)
        with self._or_later("names of dead tasks stay"), self.connected() as session:
            for name, holder in _writers(session, short_owner_of(identity), _BEHIND_ALL):
                if holder is None:
                    session.run(f"DELETE FROM {WRITERS} WHERE name = %s", (name,))


class StagedInMySQL(MySQLTransaction):
    """Stages the rows of one attempt, and takes them into the table at the pre-commit."""

    def __init__(self, database: MySQLUpserts, attempt: Attempt) -> None:
        super().__init__(database.inner, attempt)
        self._database = database

    def _make_durable(self, connection: MySQLSession, digest: str) -> Mapping[str, str]:
        session = MySQLUpsertSession(connection)
        session.run("COMMIT")
        session.run(f"SET SESSION wait_timeout = {IDLE_SECONDS}, innodb_lock_wait_timeout = {TASK_LOCK_SECONDS}")
        with self._registered(session):
            self._take(session, digest)
        with suppress(MySQLError):  # the rows are committed: the stage is dropped when the epoch is finished
            session.run(f"DROP TABLE {quoted(self._stage)}")
        return {}

    def _take(self, session: MySQLUpsertSession, digest: str) -> None:
        merge = _TakenByMySQL(self._database, session, self._attempt, self._stage)
        for left in reversed(range(_TRIES)):
            try:
                with session.transaction():
                    merge.take(digest)
            except MySQLError as error:
                if code_of(error) != _DEADLOCK or not left:
                    raise
            else:
                return

    @contextmanager
    def _registered(self, session: MySQLUpsertSession) -> Generator[None]:
        """Lets `end_writers` find this connection."""
        sink, name = self._attempt.sink, f"tidegate-{secrets.token_hex(16)}"
        session.run("SELECT GET_LOCK(%s, 0)", (name,))
        values = (name, short_owner_of(sink), place_of_run(sink.generation, self._attempt.run))
        session.run(f"INSERT INTO {WRITERS} (name, owner, place) VALUES (%s, %s, %s)", values)
        try:
            yield
        finally:
            with suppress(MySQLError):
                session.run(f"DELETE FROM {WRITERS} WHERE name = %s", (name,))
                session.run("SELECT RELEASE_LOCK(%s)", (name,))


class _TakenByMySQL(UpsertTransaction):
    """`stage`: the name of the table with the rows. It has no row twice: what is left out is deleted from it."""

    def __init__(self, database: MySQLUpserts, session: MySQLUpsertSession, attempt: Attempt, stage: str) -> None:
        super().__init__(database.stamps(session), attempt, database.where)
        self._connection = session.connection
        self._sink = database.inner
        self._name = stage

    def _write_stamps(self) -> None:
        key, stamps = list_of(self._stamps.key), self._stamps.in_sql
        gone = "NULL" if self._sink.deleted is None else f"IF(staged.{quoted(DELETED)}, 1, NULL)"
        stands = f"{stamps}.{PLACE} <= VALUES({PLACE})"
        run_exactly(
            self._connection,
            f"INSERT INTO {stamps} ({key}, {OWNER}, {PLACE}, {GONE})"
            f" SELECT {list_of(self._stamps.key, 'staged')}, '{self._owner}', {self._place_of_row()}, {gone}"
            f" FROM {self._staged()} ORDER BY {list_of(self._stamps.key, 'staged')}, staged.{quoted(ROW)}"
            # In this order: the second assignment changes what the first one has compared.
            f" ON DUPLICATE KEY UPDATE {GONE} = IF({stands}, VALUES({GONE}), {stamps}.{GONE}),"
            f" {PLACE} = IF({stands}, VALUES({PLACE}), {stamps}.{PLACE})",
        )

    def _staged(self) -> str:
        return f"{quoted(self._name)} AS staged"

    def _write_rows(self) -> None:
        self._session.run(
            f"DELETE staged FROM {self._staged()} LEFT JOIN {self._stamps.in_sql} held"
            f" ON {self._stamps.same_key('staged.')} AND held.{PLACE} = {self._place_of_row()}"
            f" WHERE held.{OWNER} IS NULL"
        )
        take(self._connection, self._sink, self._name)

    def _place_of_row(self) -> str:
        row = f"staged.{quoted(ROW)}"
        return f"CAST(CONCAT('{self._place}', LPAD(LENGTH({row}), 2, '0'), {row}) AS CHAR CHARACTER SET ascii)"


@dataclass(frozen=True, slots=True)
class MySQLUpsertCommitter(MySQLCommitter):
    """The rows are in the table already: a commit looks for their marks, and leaves the evidence."""

    def take_all(self, connection: MySQLSession, committables: Sequence[Committable], counted: bool) -> None:
        UpsertCommitter(MySQLUpsertSession(connection)).finish(committables)

    def lost(self, connection: MySQLSession, committables: Sequence[Committable], counts: bool) -> list[Answer]:
        return UpsertCommitter(MySQLUpsertSession(connection)).lost(committables)


def _writers(session: UpsertSession, owner: str, before: str) -> list[tuple[Any, ...]]:
    """The names of tasks of runs before this place, and the connections that hold their locks."""
    statement = f"SELECT name, IS_USED_LOCK(name) FROM {WRITERS} WHERE owner = %s AND place < %s"
    return session.run(statement, (owner, before))


def _kill(session: UpsertSession, connection_id: int) -> None:
    try:
        session.run(f"KILL {connection_id}")
    except MySQLError as error:
        if code_of(error) != _NO_SUCH_THREAD:
            raise
