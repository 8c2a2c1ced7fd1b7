"""A table of each database for the tests of the upsert sink."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from tests.support import mariadb as maria
from tests.support import postgres as pg
from tests.support.mariadb import MariaDBServer
from tests.support.postgres import PostgresServer
from tests.support.today import sampled
from tidegate.core.records import Committable, SinkIdentity
from tidegate.sinks.base import SinkPlan, Transaction, TwoPhaseSink
from tidegate.sinks.upsert.sink import UpsertSink
from tidegate.testing.contract import IDENTITY, attempt_of

Rows = Sequence[dict[str, Any]]
KEYED = pa.schema([("k", pa.int64()), ("v", pa.string()), ("gone", pa.bool_())])
TABLE = "the totals"


class Place(ABC):
    """A database of a test's own, without tables. `@` in a statement stands for what leads to a table, with quotes."""

    word: ClassVar[str]
    text: ClassVar[str] = "text"

    @abstractmethod
    def sink(self, **options: Any) -> UpsertSink: ...

    @abstractmethod
    def execute(self, statement: str) -> list[tuple[Any, ...]]: ...

    def rows(self) -> dict[Any, Any]:
        """The values by their key."""
        return dict(self.execute("SELECT k, v FROM @the totals@ ORDER BY k"))

    def stamps(self) -> list[Any]:
        """The keys that have a stamp."""
        return [key for (key,) in self.execute("SELECT k FROM @_tidegate_stamps_the totals@ ORDER BY k")]

    def stages(self) -> list[Any]:
        """The stages that are still there."""
        found = self.execute("SELECT table_name, table_schema FROM information_schema.tables")
        return [each for each in found if "tidegate_stage" in each[0] and self.owns(each[1])]

    @abstractmethod
    def owns(self, schema: str) -> bool: ...


@dataclass(frozen=True)
class OnSQLite(Place):
    path: Path
    word: ClassVar[str] = "sqlite"

    def sink(self, **options: Any) -> UpsertSink:
        given: dict[str, Any] = {"table": TABLE, "key": "k", "deleted": "gone", **options}
        return UpsertSink("out", self.path, **given)

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.path, isolation_level=None)) as database:
            return database.execute(statement.replace("@", '"')).fetchall()

    def stages(self) -> list[Any]:
        folder = self.path.with_name(f"{self.path.name}.tidegate")
        return [path for path in folder.rglob("*") if path.is_file()]

    def owns(self, schema: str) -> bool:
        return True


@dataclass(frozen=True)
class OnPostgres(Place):
    """`port`: where the sink connects, if not to the server itself."""

    server: PostgresServer
    schema: str
    port: int | None = None
    word: ClassVar[str] = "postgres"

    def sink(self, **options: Any) -> UpsertSink:
        settings = {"port": self.port or self.server.port, **options.pop("options", {})}
        given: dict[str, Any] = {"table": TABLE, "key": "k", "deleted": "gone", "schema": self.schema, **options}
        return UpsertSink("out", self.server.url, options=settings, **given)

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        parts = statement.split("@")
        parts[1::2] = [f"{pg.quoted(self.schema)}.{pg.quoted(name)}" for name in parts[1::2]]
        return self.server.execute("".join(parts))

    def owns(self, schema: str) -> bool:
        return schema == self.schema


@dataclass(frozen=True)
class OnMySQL(Place):
    server: MariaDBServer
    database: str
    word: ClassVar[str] = "mysql"
    text: ClassVar[str] = "varchar(100)"

    def sink(self, **options: Any) -> UpsertSink:
        settings = self.server.options(database=self.database, **options.pop("options", {}))
        given: dict[str, Any] = {"table": TABLE, "key": "k", "deleted": "gone", "options": settings, **options}
        return UpsertSink("out", "mysql://127.0.0.1", **given)

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        parts = statement.split("@")
        parts[1::2] = [f"{maria.quoted(self.database)}.{maria.quoted(name)}" for name in parts[1::2]]
        return self.server.execute("".join(parts))

    def owns(self, schema: str) -> bool:
        return schema == self.database


WORDS = ("sqlite", "postgres", "mysql")
SERVERS = sampled([pytest.param("postgres"), pytest.param("mysql")], every=2, on=1)
ALL = [pytest.param("sqlite"), *SERVERS]
"""The databases of a test: SQLite on each day, one of the servers on every second one, all with `-m more`."""


def place_on(word: str, request: pytest.FixtureRequest, folder: Path) -> Place:
    """A new place in the database that `word` names. Starts its server if no test has needed it yet."""
    if word == "sqlite":
        return OnSQLite(folder / "totals.db")
    if word in ("postgres", "pgbouncer"):
        server: PostgresServer = request.getfixturevalue("postgres")
        port: int | None = request.getfixturevalue("pooled") if word == "pgbouncer" else None
        return OnPostgres(server, server.schema(), port)
    other: MariaDBServer = request.getfixturevalue("mariadb")
    return OnMySQL(other, other.database())


def plan(schema: pa.Schema = KEYED, mode: str = "update") -> SinkPlan:
    return SinkPlan(identity=IDENTITY, schema=schema, mode=mode, local_master=True, read_journal=lambda _: ())


def opened(place: Place, **options: Any) -> UpsertSink:
    sink = place.sink(**options)
    sink.open(plan())
    return sink


def row(key: int, word: str | None = None, *, gone: bool | None = False) -> dict[str, Any]:
    return {"k": key, "v": word, "gone": gone}


def batch_of(rows: Rows, schema: pa.Schema = KEYED) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), schema=schema)


def begun(
    sink: TwoPhaseSink, *, epoch: int = 0, task: int = 0, run: int = 1, generation: int = 1, attempt: int = 0
) -> Transaction:
    """A transaction of a run that has begun."""
    identity = attempt_of(generation=generation).sink
    assert sink.begin_run(identity, run, attempt_of(run=run).run_token) is None
    return sink.begin(attempt_of(epoch=epoch, task=task, run=run, generation=generation, task_attempt=attempt))


def prepared(sink: TwoPhaseSink, rows: Rows, schema: pa.Schema = KEYED, **place: int) -> Committable:
    transaction = begun(sink, **place)
    try:
        transaction.write(batch_of(rows, schema))
        committable = transaction.pre_commit()
    except BaseException:
        transaction.abort()
        raise
    assert committable is not None
    return committable


def identity_of(**changes: Any) -> SinkIdentity:
    known = {name: getattr(IDENTITY, name) for name in IDENTITY.__struct_fields__}
    return SinkIdentity(**{**known, **changes})
