"""A failover to a replica of MariaDB or MySQL 8 that lacks the last epochs."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from tests.support.mariadb import MARIADB, PASSWORD, USER, MariaDBServer, started_of
from tests.support.mysql8 import MYSQL_8, MySQL8Server
from tests.support.standbys import SECONDS, Pair, refused_until_it_goes_back
from tests.support.today import sampled

CASES = sampled(
    [pytest.param(kind, protocol) for kind in ("mariadb", "mysql8") for protocol in ("staged", "xa")], every=6, on=3
)
SHOP = "shop"


@dataclass(frozen=True)
class MySQLPair(Pair):
    """The replica follows by global transaction ids, from what the primary has at first: each has made its own user."""

    primary: MariaDBServer
    replica: MariaDBServer
    kind: ClassVar[str] = "mysql"
    password: ClassVar[str] = PASSWORD

    def of_primary(self) -> tuple[str, str]:
        return str(self.primary.port), SHOP

    def of_standby(self) -> tuple[str, str]:
        return str(self.replica.port), SHOP

    @abstractmethod
    def follow(self) -> None: ...

    @abstractmethod
    def is_copied(self) -> bool:
        """True if the replica has everything that the primary has."""

    def await_copy(self) -> None:
        end = time.monotonic() + SECONDS
        while not self.is_copied():
            assert time.monotonic() < end, self.replica.execute("SHOW SLAVE STATUS")
            time.sleep(0.05)

    def part(self) -> None:
        self.replica.execute("STOP SLAVE")

    def fail_over(self) -> None:
        self.primary.stop()
        self.replica.execute("RESET SLAVE ALL")

    def numbers(self) -> list[int]:
        return sorted(number for (number,) in self.replica.execute("SELECT number FROM log", database=SHOP))


class MariaDBPair(MySQLPair):
    def follow(self) -> None:
        self.replica.execute("SET GLOBAL gtid_slave_pos = %s", (self._position(),))
        self.replica.execute(
            f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={self.primary.port}, MASTER_USER='{USER}',"
            f" MASTER_PASSWORD='{PASSWORD}', MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1"
        )
        self.replica.execute("START SLAVE")

    def is_copied(self) -> bool:
        return self.replica.execute("SELECT @@gtid_slave_pos") == [(self._position(),)]

    def _position(self) -> str:
        ((found,),) = self.primary.execute("SELECT @@gtid_binlog_pos")
        return found


class MySQL8Pair(MySQLPair):
    def follow(self) -> None:
        self.replica.execute("RESET MASTER")
        self.replica.execute("SET GLOBAL gtid_purged = %s", (self._executed(),))
        self.replica.execute(
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={self.primary.port},"
            f" SOURCE_USER='{USER}', SOURCE_PASSWORD='{PASSWORD}', SOURCE_AUTO_POSITION=1, SOURCE_CONNECT_RETRY=1,"
            " GET_SOURCE_PUBLIC_KEY=1"
        )
        self.replica.execute("START REPLICA")

    def is_copied(self) -> bool:
        return self.replica.execute("SELECT GTID_SUBSET(%s, @@gtid_executed)", (self._executed(),)) == [(1,)]

    def _executed(self) -> str:
        ((found,),) = self.primary.execute("SELECT @@gtid_executed")
        return found


@pytest.fixture
def pair(request: pytest.FixtureRequest) -> Iterator[MySQLPair]:
    servers = list[MariaDBServer]()
    try:
        for number in ("1", "2"):
            settings = {"server_id": number, "log_bin": "log", "binlog_format": "ROW"}
            if request.param == "mysql8":
                modes = {"gtid_mode": "ON", "enforce_gtid_consistency": "ON"}
                servers.append(started_of(MySQL8Server, MYSQL_8, {**settings, **modes}))
            else:
                servers.append(started_of(MariaDBServer, MARIADB, settings))
        found = MySQL8Pair(*servers) if request.param == "mysql8" else MariaDBPair(*servers)
        found.follow()
        found.primary.execute(f"CREATE DATABASE {SHOP}")
        yield found
    finally:
        for server in servers:
            server.remove()


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("pair", "protocol"), CASES, indirect=["pair"])
def test_a_replica_that_lacks_epochs_is_refused_and_has_each_row_once_after_going_back(
    tmp_path: Path, pair: MySQLPair, protocol: str
) -> None:
    refused_until_it_goes_back(tmp_path, pair, protocol)
