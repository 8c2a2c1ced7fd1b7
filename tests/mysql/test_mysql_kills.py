"""Kills of a driver that writes to MariaDB, by both protocols."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from tests.support.database_kills import DatabaseTarget, PreparedKills, StagedKills
from tests.support.mariadb import PASSWORD, MariaDBServer, quoted

pytestmark = pytest.mark.more


class MariaDBTarget(DatabaseTarget):
    kind: ClassVar[str] = "mysql"
    prepared: ClassVar[str] = "xa"
    password: ClassVar[str] = PASSWORD

    def __init__(self, server: MariaDBServer) -> None:
        self._server = server
        self._database = server.database()

    @property
    def arguments(self) -> tuple[str, str]:
        return str(self._server.port), self._database

    def rows(self, columns: str, table: str) -> list[tuple[Any, ...]]:
        return self._server.execute(f"SELECT {columns} FROM {quoted(self._database)}.{table}")

    def make_unique_log(self) -> None:
        self._server.execute(f"CREATE TABLE {quoted(self._database)}.log (number BIGINT PRIMARY KEY, mark TEXT)")

    def left_over(self) -> list[str]:
        tables = self._server.execute("SHOW TABLES", database=self._database)
        stages = [str(name) for (name,) in tables if name.startswith("_tidegate_stage")]
        return [*stages, *self._server.branches()]


@pytest.fixture
def target(mariadb: MariaDBServer) -> Iterator[DatabaseTarget]:
    yield MariaDBTarget(mariadb)
    mariadb.end_branches()


class TestStaged(StagedKills):
    pass


class TestXa(PreparedKills):
    pass
