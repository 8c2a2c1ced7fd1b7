"""A failover to a standby of PostgreSQL that lacks the last epochs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from tests.support.postgres import PASSWORD, PostgresServer, following, started
from tests.support.standbys import SECONDS, Pair, refused_until_it_goes_back
from tests.support.today import sampled

PROTOCOLS = sampled([pytest.param("staged"), pytest.param("prepared")], every=6)


@dataclass(frozen=True)
class PostgresPair(Pair):
    primary: PostgresServer
    standby: PostgresServer
    kind: ClassVar[str] = "postgres"
    password: ClassVar[str] = PASSWORD

    def of_primary(self) -> tuple[str, str]:
        return without_password(self.primary), "public"

    def of_standby(self) -> tuple[str, str]:
        return without_password(self.standby), "public"

    def await_copy(self) -> None:
        ((wanted,),) = self.primary.execute("SELECT pg_current_wal_flush_lsn()::text")
        end = time.monotonic() + SECONDS
        while not self.standby.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", (wanted,))[0][0]:
            assert time.monotonic() < end, "the standby does not follow"
            time.sleep(0.05)

    def part(self) -> None:
        self.standby.stop()

    def fail_over(self) -> None:
        self.primary.stop()
        self.standby.resume()
        self.standby.execute("SELECT pg_promote()")

    def numbers(self) -> list[int]:
        return sorted(number for (number,) in self.standby.execute("SELECT number FROM log"))


@pytest.fixture
def pair() -> Iterator[PostgresPair]:
    primary = started(max_prepared_transactions="16")
    try:
        standby = following(primary, max_prepared_transactions="16")
        try:
            yield PostgresPair(primary, standby)
        finally:
            standby.remove()
    finally:
        primary.remove()


@pytest.mark.timeout(400)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_standby_that_lacks_epochs_is_refused_and_has_each_row_once_after_going_back(
    tmp_path: Path, pair: PostgresPair, protocol: str
) -> None:
    refused_until_it_goes_back(tmp_path, pair, protocol)


def without_password(server: PostgresServer) -> str:
    return server.conninfo.replace(f" password={PASSWORD}", "")
