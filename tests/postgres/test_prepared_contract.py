"""The PostgreSQL sink by prepared transactions, under the contract that tidegate ships, on a real server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from tests.postgres.test_postgres_contract import OnPostgres
from tests.support.pgbouncer import pooler
from tests.support.postgres import PostgresServer, end_prepared, started
from tidegate.sinks.postgres.sink import PostgresSink


class Prepared(OnPostgres):
    kills_at_most = 9

    @pytest.fixture(autouse=True)
    def on_the_server(self, preparing: PostgresServer) -> Iterator[None]:
        self.server = preparing
        yield
        end_prepared(preparing)

    def make_sink(self) -> PostgresSink:
        return self.sink_of({})

    def sink_of(self, options: dict[str, Any]) -> PostgresSink:
        return PostgresSink(
            "numbers",
            self.server.conninfo,
            table="the numbers",
            schema=self.schema,
            protocol="prepared",
            options=options,
        )


class TestPrepared(Prepared):
    """Append: the one shape of this protocol."""


@pytest.mark.more
class TestPreparedThroughAPooler(Prepared):
    """PREPARE TRANSACTION ends a transaction, so the pooler takes the backend back."""

    @pytest.fixture(scope="class")
    @classmethod
    def port(cls, preparing: PostgresServer) -> Iterator[int]:
        with pooler(preparing) as port:
            yield port

    @pytest.fixture(autouse=True)
    def through(self, port: int) -> None:
        self.port_of_pooler = port

    def make_sink(self) -> PostgresSink:
        return self.sink_of({"port": self.port_of_pooler})


class OfAnotherVersion(Prepared):
    version: ClassVar[str]

    @pytest.fixture(scope="class")
    @classmethod
    def preparing(cls) -> Iterator[PostgresServer]:
        server = started(cls.version, max_prepared_transactions="64")
        try:
            yield server
        finally:
            server.remove()


@pytest.mark.more
class TestPreparedOn16(OfAnotherVersion):
    version = "16"


@pytest.mark.more
class TestPreparedOn15(OfAnotherVersion):
    version = "15"
