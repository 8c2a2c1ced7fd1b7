"""Connections of the MySQL sink: TLS, and a server that has no connection left."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pymysql
import pytest

from tests.mysql.test_mysql_faults import staged
from tests.mysql.test_mysql_tables import Place
from tests.support.certificates import certificates
from tests.support.database_faults import no_connection_loses_and_repeats_no_row
from tests.support.mariadb import PASSWORD, USER, MariaDBServer, started
from tests.support.staged import outcome, plan
from tests.support.today import turn
from tidegate.core.records import Outcome
from tidegate.sinks.mysql.server import run
from tidegate.testing.contract import SCHEMA


@pytest.fixture
def place(mariadb: MariaDBServer) -> Place:
    return Place(mariadb, mariadb.database())


# --- connections that are taken ------------------------------------------------------------------------------------


def test_connections_that_the_server_does_not_have_are_told(place: Place) -> None:
    with busy(place.server):
        (violation,) = place.sink().check(plan(SCHEMA))
        assert "Too many connections" in violation.found
        assert "max_connections" in violation.next_step


def test_a_task_and_a_commit_without_a_connection_lose_no_row_and_repeat_none(place: Place) -> None:
    sink = place.sink()

    def counted() -> tuple[int, int]:
        [found] = place.rows("SELECT COUNT(*), COUNT(DISTINCT id) FROM t")
        return found

    no_connection_loses_and_repeats_no_row(
        sink, lambda epoch: staged(sink, epoch=epoch), busy(place.server), "Too many connections", counted
    )


@contextmanager
def busy(server: MariaDBServer) -> Iterator[None]:
    """All connections of the server are taken. (It keeps one for those who may do everything.)"""
    taken: list[Any] = []
    try:
        with suppress(pymysql.err.OperationalError):
            while True:
                login: dict[str, Any] = {"host": "127.0.0.1", "port": server.port, "user": USER, "password": PASSWORD}
                taken.append(pymysql.connect(**login))
        yield
    finally:
        for each in taken:
            each.close()


# --- TLS -----------------------------------------------------------------------------------------------------------


def test_a_process_reads_the_certificates_of_the_machine_once(
    mariadb: MariaDBServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyMySQL would do it for each connection: 20 ms, for what it compares with nothing."""
    place, made = Place(mariadb, mariadb.database()), list[ssl.SSLContext]()
    make = ssl.create_default_context

    def counted(*arguments: Any, **options: Any) -> ssl.SSLContext:
        made.append(make(*arguments, **options))
        return made[-1]

    monkeypatch.setattr("tidegate.sinks.mysql.server._MySQLConnection._of_any_server", None)
    monkeypatch.setattr("ssl.create_default_context", counted)
    sink = place.sink()
    assert outcome(sink, staged(sink)) is Outcome.COMMITTED
    assert [each.verify_mode for each in made] == [ssl.CERT_NONE]


@turn(0, of=4)
def test_the_certificate_of_the_server_is_compared_as_the_options_say() -> None:
    """Its issuer, and the name: it is for 127.0.0.1, not for localhost."""
    with certificates() as (ours, other):
        server = started(ssl_cert=str(ours[0]), ssl_key=str(ours[1]))
        try:
            place = Place(server, server.database())
            trusted: dict[str, Any] = {
                "ssl_disabled": False,
                "ssl_ca": str(ours[0]),
                "ssl_verify_cert": True,
                "ssl_verify_identity": True,
            }
            sink = place.sink(options=trusted)
            assert sink.check(plan(SCHEMA)) == []
            assert outcome(sink, staged(sink)) is Outcome.COMMITTED
            with sink.server.connected() as connection:
                ((_, cipher),) = run(connection, "SHOW SESSION STATUS LIKE 'Ssl_cipher'")
            assert cipher != ""
            for wrong, told in (
                ({"ssl_ca": str(other[0])}, "certificate verify failed"),
                ({"host": "localhost"}, "ame"),
            ):
                (violation,) = place.sink(options={**trusted, **wrong}).check(plan(SCHEMA))
                assert violation.code == "TG-SINK-UNUSABLE"
                assert told in violation.found
                assert "TLS options" in violation.next_step
            assert place.rows("SELECT COUNT(*) FROM t") == [(2,)]
        finally:
            server.remove()
