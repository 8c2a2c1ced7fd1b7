"""The MySQL sink under the contract that tidegate ships, on a real server."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.mariadb import MariaDBServer, quoted
from tidegate.sinks.mysql.sink import MySQLSink
from tidegate.testing.contract import Row, SinkContract


class OnMariaDB(SinkContract):
    """Each folder stands for a database of its own."""

    kills_at_most = 6
    server: MariaDBServer

    @pytest.fixture(autouse=True)
    def on_the_server(self, mariadb: MariaDBServer) -> None:
        self.server = mariadb

    @property
    def database(self) -> str:
        name = f"Numbers {hashlib.sha256(str(self.folder).encode()).hexdigest()[:12]}"
        # MySQL lets CREATE DATABASE wait for each transaction that writes into the database, also if it is there.
        if not self.server.execute("SHOW DATABASES LIKE %s", (name,)):
            self.server.execute(f"CREATE DATABASE {quoted(name)}")
        return name

    def sink(self, **options: Any) -> MySQLSink:
        given: dict[str, Any] = {"options": self.server.options(), **options}
        return MySQLSink("numbers", "127.0.0.1", database=self.database, table="the numbers", **given)

    def read_target(self) -> list[Row]:
        rows = self.server.execute(f"SELECT id, word FROM {quoted(self.database)}.`the numbers`")
        return [{"id": number, "word": word} for number, word in rows]


class TestMySQLUpsert(OnMariaDB):
    def make_sink(self) -> MySQLSink:
        return self.sink(key="id")


@pytest.mark.more
class TestMySQLByXA(OnMariaDB):
    """Append: the one shape of this protocol."""

    @pytest.fixture(autouse=True)
    def nothing_stays_prepared(self, mariadb: MariaDBServer) -> Iterator[None]:
        yield
        mariadb.end_branches()

    def make_sink(self) -> MySQLSink:
        return self.sink(protocol="xa")


@pytest.mark.more
class TestMySQLAppend(OnMariaDB):
    def make_sink(self) -> MySQLSink:
        return self.sink(options=self.server.options(local_infile=True))


@pytest.mark.more
class TestMySQL8Upsert(TestMySQLUpsert):
    @pytest.fixture(autouse=True)
    def on_the_server(self, mysql8: MariaDBServer) -> None:
        self.server = mysql8


@pytest.mark.more
class TestMySQL8ByXA(OnMariaDB):
    @pytest.fixture(autouse=True)
    def on_the_server(self, mysql8: MariaDBServer) -> Iterator[None]:
        self.server = mysql8
        yield
        mysql8.end_branches()

    def make_sink(self) -> MySQLSink:
        return self.sink(protocol="xa")
