"""Connections of the PostgreSQL sink: TLS, passwords in a file, and a server that has no connection left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.postgres.test_postgres_faults import staged
from tests.postgres.test_postgres_tables import Place
from tests.support.certificates import certificates
from tests.support.database_faults import no_connection_loses_and_repeats_no_row
from tests.support.postgres import DATABASE, PASSWORD, PostgresServer, started
from tests.support.staged import outcome, plan
from tidegate.core.levels import Level
from tidegate.core.records import Outcome
from tidegate.operate.sinks import describe, open_sink
from tidegate.sinks.postgres.sink import PostgresSink
from tidegate.testing.contract import SCHEMA


@pytest.fixture
def place(postgres: PostgresServer) -> Place:
    return Place(postgres, postgres.schema())


# --- connections that are taken ------------------------------------------------------------------------------------


def test_connections_that_the_server_does_not_have_are_told(place: Place) -> None:
    with busy(place.server):
        (violation,) = place.sink().check(plan(SCHEMA))
        assert "too many" in violation.found or "remaining connection slots" in violation.found
        assert "max_connections" in violation.next_step


def test_a_task_and_a_commit_without_a_connection_lose_no_row_and_repeat_none(place: Place) -> None:
    sink = place.sink()

    def counted() -> tuple[int, int]:
        [found] = place.rows("SELECT count(*), count(DISTINCT id) FROM @.t")
        return found

    told = "too many|remaining connection slots"
    no_connection_loses_and_repeats_no_row(
        sink, lambda epoch: staged(sink, epoch=epoch), busy(place.server), told, counted
    )


@contextmanager
def busy(server: PostgresServer) -> Iterator[None]:
    """All connections of the server are taken."""
    taken: list[psycopg.Connection[Any]] = []
    try:
        with suppress(psycopg.OperationalError):
            while True:
                taken.append(psycopg.connect(server.conninfo))
        yield
    finally:
        for each in taken:
            each.close()


# --- passwords -----------------------------------------------------------------------------------------------------


def test_a_password_in_a_file_is_read_by_each_connection_and_is_in_no_text(place: Place, tmp_path: Path) -> None:
    """A file that is replaced counts from the next connection on. One that is missing is told by its name."""
    file = tmp_path / "password"
    sink = PostgresSink(
        "out",
        f"postgresql://owner@127.0.0.1:{place.server.port}/{DATABASE}",
        table="t",
        schema=place.schema,
        options={"password": f"file:{file}"},
    )
    described = describe("q", sink, Level.EXACTLY_ONCE)
    assert described.target["settings"]["password"] == f"file:{file}"
    opened = open_sink(described, {})
    (missing,) = opened.check(plan(SCHEMA))
    assert (missing.code, str(file) in str(missing)) == ("TG-OPTION-UNREADABLE", True)
    file.write_text("wr0ng-and-hidden\n")
    (violation,) = opened.check(plan(SCHEMA))
    assert (violation.code, "password authentication failed" in violation.found) == ("TG-SINK-UNUSABLE", True)
    file.write_text(f"{PASSWORD}\n")
    assert opened.check(plan(SCHEMA)) == []
    assert outcome(sink, staged(sink)) is Outcome.COMMITTED
    assert place.rows("SELECT count(*) FROM @.t") == [(2,)]
    told = f"{described}{missing}{violation}{opened!r}{sink.server!r}"
    assert not any(each in told for each in (PASSWORD, "wr0ng-and-hidden"))


# --- TLS -----------------------------------------------------------------------------------------------------------


@pytest.mark.more
def test_the_certificate_of_the_server_is_compared_as_the_options_say() -> None:
    """With Debian's server: that of the environment is built without TLS."""
    with certificates() as (ours, other):
        server = started("15", ssl="on", ssl_cert_file=str(ours[0]), ssl_key_file=str(ours[1]))
        try:
            place = Place(server, server.schema())
            trusted: dict[str, Any] = {"sslmode": "verify-full", "sslrootcert": str(ours[0])}
            sink = place.sink(options=trusted)
            assert sink.check(plan(SCHEMA)) == []
            assert outcome(sink, staged(sink)) is Outcome.COMMITTED
            with sink.server.connected() as connection:
                used = connection.execute("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").fetchone()
            assert used == (True,)
            (violation,) = place.sink(options={**trusted, "sslrootcert": str(other[0])}).check(plan(SCHEMA))
            assert violation.code == "TG-SINK-UNUSABLE"
            assert "certificate verify failed" in violation.found
        finally:
            server.remove()
