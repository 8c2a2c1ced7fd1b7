"""The upsert sink under the contract of idempotent sinks that tidegate ships, on each real database."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.support import mariadb as maria
from tests.support import postgres as pg
from tests.support.mariadb import MariaDBServer
from tests.support.pgbouncer import pooler
from tests.support.postgres import PostgresServer
from tests.support.today import turn
from tidegate.sinks.upsert.sink import UpsertSink
from tidegate.testing.contract import Row
from tidegate.testing.idempotent_contract import IdempotentContract

TABLE = "the numbers"


class TestSQLiteUpserts(IdempotentContract):
    kills_at_most = 4

    def make_sink(self) -> UpsertSink:
        self.folder.mkdir(parents=True, exist_ok=True)
        return UpsertSink("numbers", self.folder / "numbers.db", table=TABLE, key="id")

    def read_target(self) -> list[Row]:
        with closing(sqlite3.connect(self.folder / "numbers.db")) as database:
            rows = database.execute(f'SELECT id, word FROM "{TABLE}"').fetchall()
        return [{"id": number, "word": word} for number, word in rows]


@turn(1, of=6)
class TestPostgresUpserts(IdempotentContract):
    """Each folder stands for a schema of its own."""

    kills_at_most = 9
    server: PostgresServer

    @pytest.fixture(autouse=True)
    def on_the_server(self, postgres: PostgresServer) -> None:
        self.server = postgres

    @property
    def schema(self) -> str:
        name = f"Numbers {hashlib.sha256(str(self.folder).encode()).hexdigest()[:12]}"
        self.server.execute(f"CREATE SCHEMA IF NOT EXISTS {pg.quoted(name)}")
        return name

    def make_sink(self) -> UpsertSink:
        return UpsertSink("numbers", self.server.url, table=TABLE, schema=self.schema, key="id")

    def read_target(self) -> list[Row]:
        rows = self.server.execute(f"SELECT id, word FROM {pg.quoted(self.schema)}.{pg.quoted(TABLE)}")
        return [{"id": number, "word": word} for number, word in rows]


@pytest.mark.more
class TestPostgresUpsertsThroughPgbouncer(TestPostgresUpserts):
    """In transaction mode: nothing may depend on the connection."""

    @pytest.fixture(autouse=True)
    def through(self, postgres: PostgresServer) -> Iterator[None]:
        with pooler(postgres) as self.port:
            yield

    def make_sink(self) -> UpsertSink:
        options = {"port": self.port}
        return UpsertSink("numbers", self.server.url, table=TABLE, schema=self.schema, key="id", options=options)


@turn(4, of=6)
class TestMySQLUpserts(IdempotentContract):
    """Each folder stands for a database of its own."""

    kills_at_most = 6
    server: MariaDBServer

    @pytest.fixture(autouse=True)
    def on_the_server(self, mariadb: MariaDBServer) -> None:
        self.server = mariadb

    @property
    def database(self) -> str:
        name = f"Numbers {hashlib.sha256(str(self.folder).encode()).hexdigest()[:12]}"
        self.server.execute(f"CREATE DATABASE IF NOT EXISTS {maria.quoted(name)}")
        return name

    def make_sink(self) -> UpsertSink:
        settings = self.server.options(database=self.database)
        return UpsertSink("numbers", "mysql://127.0.0.1", table=TABLE, key="id", options=settings)

    def read_target(self) -> list[Row]:
        rows = self.server.execute(f"SELECT id, word FROM {maria.quoted(self.database)}.{maria.quoted(TABLE)}")
        return [{"id": number, "word": word} for number, word in rows]
