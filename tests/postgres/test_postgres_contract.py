"""The PostgreSQL sink under the contract that tidegate ships, on a real server."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import ClassVar

import pytest

from tests.support.pgbouncer import pooler
from tests.support.postgres import PostgresServer, quoted, started
from tidegate.sinks.postgres.sink import PostgresSink
from tidegate.testing.contract import Row, SinkContract


class OnPostgres(SinkContract):
    """Each folder stands for a schema of its own."""

    kills_at_most = 9
    server: PostgresServer

    @pytest.fixture(autouse=True)
    def on_the_server(self, postgres: PostgresServer) -> None:
        self.server = postgres

    @property
    def schema(self) -> str:
        name = f"Numbers {hashlib.sha256(str(self.folder).encode()).hexdigest()[:12]}"
        self.server.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(name)}")
        return name

    def read_target(self) -> list[Row]:
        rows = self.server.execute(f'SELECT id, word FROM {quoted(self.schema)}."the numbers"')
        return [{"id": number, "word": word} for number, word in rows]


class TestPostgresAppend(OnPostgres):
    def make_sink(self) -> PostgresSink:
        return PostgresSink("numbers", self.server.conninfo, table="the numbers", schema=self.schema)


class TestPostgresUpsert(OnPostgres):
    def make_sink(self) -> PostgresSink:
        return PostgresSink("numbers", self.server.conninfo, table="the numbers", schema=self.schema, key="id")


@pytest.mark.more
class TestPostgresThroughAPooler(OnPostgres):
    """Each transaction may get another backend."""

    @pytest.fixture(scope="class")
    @classmethod
    def port(cls, postgres: PostgresServer) -> Iterator[int]:
        with pooler(postgres) as port:
            yield port

    @pytest.fixture(autouse=True)
    def through(self, port: int) -> None:
        self.port_of_pooler = port

    def make_sink(self) -> PostgresSink:
        options = {"port": self.port_of_pooler}
        return PostgresSink(
            "numbers", self.server.conninfo, table="the numbers", schema=self.schema, key="id", options=options
        )


class OfAnotherVersion(OnPostgres):
    version: ClassVar[str]

    @pytest.fixture(scope="class")
    @classmethod
    def postgres(cls) -> Iterator[PostgresServer]:
        server = started(cls.version)
        try:
            yield server
        finally:
            server.remove()

    def make_sink(self) -> PostgresSink:
        return PostgresSink("numbers", self.server.conninfo, table="the numbers", schema=self.schema, key="id")


@pytest.mark.more
class TestPostgres16(OfAnotherVersion):
    version = "16"


@pytest.mark.more
class TestPostgres15(OfAnotherVersion):
    version = "15"
