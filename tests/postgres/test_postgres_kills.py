"""Kills of a driver that writes to PostgreSQL, by both protocols."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from tests.support.database_kills import DatabaseTarget, PreparedKills, StagedKills
from tests.support.postgres import PASSWORD, PostgresServer, quoted


class PostgresTarget(DatabaseTarget):
    kind: ClassVar[str] = "postgres"
    prepared: ClassVar[str] = "prepared"
    password: ClassVar[str] = PASSWORD

    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._schema = server.schema()

    @property
    def arguments(self) -> tuple[str, str]:
        return self._server.conninfo.replace(f" password={PASSWORD}", ""), self._schema

    def rows(self, columns: str, table: str) -> list[tuple[Any, ...]]:
        return self._server.execute(f"SELECT {columns} FROM {quoted(self._schema)}.{table}")

    def make_unique_log(self) -> None:
        self._server.execute(f"CREATE TABLE {quoted(self._schema)}.log (number bigint PRIMARY KEY, mark text)")

    def left_over(self) -> list[str]:
        stages = self._server.execute(
            r"SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename LIKE '\_tidegate\_stage%%'",
            (self._schema,),
        )
        prepared = self._server.execute("SELECT gid FROM pg_prepared_xacts")
        return [str(name) for (name,) in [*stages, *prepared]]


class TestStaged(StagedKills):
    @pytest.fixture
    def target(self, postgres: PostgresServer) -> DatabaseTarget:
        return PostgresTarget(postgres)


@pytest.mark.more
class TestPrepared(PreparedKills):
    @pytest.fixture
    def target(self, preparing: PostgresServer) -> DatabaseTarget:
        return PostgresTarget(preparing)
