"""The upsert sink: tables that refuse or vanish, rights, servers that die, answers that are lost, logins."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support import mariadb as maria
from tests.support import postgres as pg
from tests.support.mariadb import PASSWORD, MariaDBServer
from tests.support.postgres import PostgresServer
from tests.support.proxy import Proxy
from tests.support.today import turn
from tests.support.variables import variables
from tests.upsert.places import (
    ALL,
    SERVERS,
    OnMySQL,
    OnPostgres,
    OnSQLite,
    Place,
    batch_of,
    begun,
    opened,
    place_on,
    plan,
    prepared,
    row,
)
from tidegate.core.errors import TidegateError
from tidegate.core.levels import Level
from tidegate.core.records import Committable, Evidence, Outcome
from tidegate.operate.sinks import describe, open_sink
from tidegate.sinks.base import Transaction
from tidegate.sinks.rows import RowRefused
from tidegate.sinks.upsert.sink import UpsertSink
from tidegate.testing.contract import IDENTITY, attempt_of


@pytest.fixture(params=ALL)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return place_on(request.param, request, tmp_path)


def outcome(sink: UpsertSink, committable: Committable) -> Outcome:
    (answer,) = sink.commit([committable])
    return answer.outcome


def error_of(transaction: Transaction, *rows: dict[str, Any]) -> TidegateError:
    """What ends the transaction of these rows."""
    try:
        transaction.write(batch_of(rows))
        transaction.pre_commit()
    except TidegateError as error:
        transaction.abort()
        return error
    raise AssertionError("the rows were taken")


# --- tables that refuse or vanish ------------------------------------------------------------------------------


def test_a_row_that_breaks_another_unique_index_is_refused_in_its_task(place: Place) -> None:
    place.execute(f"CREATE TABLE @the totals@ (k bigint NOT NULL PRIMARY KEY, v {place.text} UNIQUE)")
    sink = opened(place)
    prepared(sink, [row(1, "taken")])
    with pytest.raises(RowRefused):
        prepared(sink, [row(2, "free"), row(3, "taken")], epoch=1)
    assert (place.rows(), place.stamps()) == ({1: "taken"}, [1]), "nothing of the task is there"
    prepared(sink, [row(2, "free")], epoch=1)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param("DROP TABLE @the totals@", id="table"),
        pytest.param("ALTER TABLE @the totals@ DROP COLUMN v", id="column"),
        pytest.param("DROP TABLE @_tidegate_stamps_the totals@", id="stamps"),
        pytest.param("DROP TABLE @_tidegate_fences@", id="fences"),
    ],
)
def test_what_vanishes_while_a_job_runs_ends_it_and_a_start_makes_tables_again(place: Place, change: str) -> None:
    sink = opened(place)
    prepared(sink, [row(1, "x")])
    late = begun(sink, epoch=1)
    place.execute(change)
    error = error_of(late, row(2, "y"))
    assert error.code in ("TG-SINK-UNUSABLE", "TG-SCHEMA-MISMATCH")
    assert error.next_step
    if "DROP TABLE" in change:
        prepared(opened(place), [row(2, "y")], epoch=1, run=2)
        assert place.rows()[2] == "y"
    else:
        assert [each.code for each in sink.check(plan())] == ["TG-SCHEMA-MISMATCH"]


def test_a_table_without_an_index_over_the_key_is_refused_at_the_start(place: Place) -> None:
    place.execute(f"CREATE TABLE @the totals@ (k bigint NOT NULL, v {place.text})")
    assert [each.code for each in place.sink().check(plan())] == ["TG-KEY-COLUMN"]


def test_a_fence_that_was_removed_fails_the_epoch(place: Place) -> None:
    sink = opened(place)
    late = begun(sink)
    place.execute("DELETE FROM @_tidegate_fences@")
    late.write(batch_of([row(1, "x")]))
    with pytest.raises(TidegateError) as raised:
        late.pre_commit()
    late.abort()
    assert (raised.value.code, "none" in raised.value.found) == ("TG-EPOCH-FAILED", True)
    assert place.rows() == {}


def test_a_database_that_was_put_back_from_an_older_copy_is_behind_and_its_rows_are_lost(tmp_path: Path) -> None:
    place = OnSQLite(tmp_path / "totals.db")
    sink = opened(place)
    assert outcome(sink, prepared(sink, [row(1, "x")])) is Outcome.COMMITTED
    shutil.copy(place.path, tmp_path / "copy")
    second, third = (prepared(sink, [row(1, "y")], epoch=epoch) for epoch in (1, 2))
    assert outcome(sink, second) is Outcome.COMMITTED
    shutil.copy(tmp_path / "copy", place.path)
    position = sink.position(IDENTITY)
    assert position is not None
    assert position.epoch == 0
    assert outcome(sink, third) is Outcome.LOST


# --- servers ---------------------------------------------------------------------------------------------------


@contextmanager
def own_server(word: str) -> Iterator[tuple[Place, PostgresServer | MariaDBServer]]:
    server = pg.started() if word == "postgres" else maria.started()
    try:
        if isinstance(server, PostgresServer):
            yield OnPostgres(server, server.schema()), server
        else:
            yield OnMySQL(server, server.database()), server
    finally:
        server.remove()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("word", SERVERS)
def test_a_server_that_crashes_keeps_whole_tasks_and_is_waited_for(word: str) -> None:
    with own_server(word) as (place, server):
        sink = opened(place)
        first = prepared(sink, [row(1, "x")])
        half = begun(sink, epoch=1)
        half.write(batch_of([row(2, "half")]))
        server.stop(signal.SIGQUIT if word == "postgres" else signal.SIGKILL)
        with pytest.raises(TidegateError, match="TG-SINK-UNUSABLE"):
            half.pre_commit()
        half.abort()
        assert outcome(sink, first) is Outcome.RETRY
        assert sink.evidence(first) is Evidence.UNKNOWN
        sink.clean(IDENTITY, 0)  # a later call does it
        assert [each.code for each in sink.check(plan())] == ["TG-SINK-UNUSABLE"]
        server.resume()
        assert outcome(sink, first) is Outcome.COMMITTED
        assert place.rows() == {1: "x"}
        server.stop(signal.SIGQUIT if word == "postgres" else signal.SIGKILL)
        server.resume()
        assert outcome(sink, first) is Outcome.ALREADY
        assert sink.evidence(first) is Evidence.PRESENT


@pytest.mark.parametrize("word", SERVERS)
def test_an_answer_to_the_commit_that_is_lost_fails_the_attempt_and_the_next_one_replaces_it(
    word: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    place = place_on(word, request, tmp_path)
    assert isinstance(place, OnPostgres | OnMySQL)
    with Proxy(place.server.port) as proxy:
        sink = opened(place, options={"port": proxy.port})
        late = begun(sink, attempt=0)
        late.write(batch_of([row(1, "first"), row(2, "first")]))
        lost = proxy.lose_answer(b"COMMIT", count=2)
        with pytest.raises(TidegateError, match="TG-SINK-UNUSABLE"):
            late.pre_commit()
        late.abort()
        assert lost.struck > 0
        proxy_free = opened(place)
        again = prepared(proxy_free, [row(1, "second")], attempt=1)
    assert outcome(proxy_free, again) is Outcome.COMMITTED
    assert place.rows()[1] == "second"


# --- rights and logins -----------------------------------------------------------------------------------------


@turn(0, of=4)
def test_a_user_of_postgres_without_the_rights_is_told_which(postgres: PostgresServer) -> None:
    place = OnPostgres(postgres, postgres.schema())
    sink = opened(place)
    prepared(sink, [row(1, "x")])
    user = f"u{place.schema[3:9]}"
    place.server.execute(f"CREATE USER {user} PASSWORD '{PASSWORD}'")
    place.server.execute(f"GRANT USAGE, CREATE ON SCHEMA {pg.quoted(place.schema)} TO {user}")
    place.server.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA {pg.quoted(place.schema)} TO {user}")
    theirs = place.sink(options={"user": user})
    assert list(theirs.check(plan())) == []
    prepared(theirs, [row(1, "y")], epoch=1)
    stamps = f'{pg.quoted(place.schema)}."_tidegate_stamps_the totals"'
    place.server.execute(f"REVOKE UPDATE ON {stamps} FROM {user}")
    with pytest.raises(TidegateError) as raised:
        prepared(theirs, [row(1, "z")], epoch=2)
    assert (raised.value.code, "GRANT" in raised.value.next_step) == ("TG-SINK-UNUSABLE", True)
    assert place.rows() == {1: "y"}


@turn(2, of=4)
def test_a_user_of_mysql_without_the_rights_is_told_which(mariadb: MariaDBServer) -> None:
    place = OnMySQL(mariadb, mariadb.database())
    opened(place)
    place.server.execute(f"CREATE OR REPLACE USER 'narrow'@'%' IDENTIFIED BY '{PASSWORD}'")
    rights = "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP"
    place.server.execute(f"GRANT {rights} ON {maria.quoted(place.database)}.* TO 'narrow'@'%'")
    theirs = place.sink(options={"user": "narrow"})
    assert list(theirs.check(plan())) == []
    prepared(theirs, [row(1, "y")])
    place.server.execute(f"REVOKE UPDATE ON {maria.quoted(place.database)}.* FROM 'narrow'@'%'")
    with pytest.raises(TidegateError) as raised:
        prepared(theirs, [row(1, "z")], epoch=1)
    assert (raised.value.code, "GRANT" in raised.value.next_step) == ("TG-SINK-UNUSABLE", True)
    assert place.rows() == {1: "y"}


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("http://user:s3cret-and-wrong@host/db", {}),
        ("host=db password=s3cret-and-wrong", {}),
        ("mysql://user:s3cret-and-wrong@host:no/db", {}),
        ("mysql://user:s3cret-and-wrong@host/db?ssl=1", {}),
        ("postgresql://host/db", {"pasword": "s3cret-and-wrong"}),
        ("totals.db", {"password": "s3cret-and-wrong"}),
    ],
)
def test_a_url_or_an_option_that_is_none_is_not_quoted(url: str, options: dict[str, Any]) -> None:
    with pytest.raises(TidegateError) as raised:
        UpsertSink("out", url, table="t", key="k", options=options)
    assert raised.value.code == "TG-OPTION-UNKNOWN"
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("url", ["postgresql://etl:{}@127.0.0.1:1/shop", "mysql://etl:{}@127.0.0.1:1/shop"])
def test_a_password_is_in_no_description_and_no_text(url: str) -> None:
    by_hand = UpsertSink("out", url.format(PASSWORD), table="t", key="k")
    described = describe("q", by_hand, Level.EXACTLY_ONCE)
    assert PASSWORD not in f"{described}{by_hand.database.where}"
    assert described.target["left_out"] == ["password"]
    (violation,) = by_hand.check(plan())
    assert PASSWORD not in str(violation)
    kept = UpsertSink("out", url.replace(":{}", ""), table="t", key="k", options={"password": "env:THE_PASSWORD"})
    described = describe("q", kept, Level.EXACTLY_ONCE)
    opened_again = open_sink(described, {})
    with pytest.raises(TidegateError, match="THE_PASSWORD") as raised:
        opened_again.position(IDENTITY)
    assert raised.value.code == "TG-OPTION-UNREADABLE"
    with variables({"THE_PASSWORD": PASSWORD}):
        assert describe("q", opened_again, Level.EXACTLY_ONCE) == described


def test_at_least_once_leaves_no_evidence_and_its_marks_are_cleaned_up(place: Place) -> None:
    sink = opened(place)
    committable = prepared(sink, [row(1, "x")])
    assert [each.outcome for each in sink.commit_straight([committable])] == [Outcome.COMMITTED]
    assert place.execute("SELECT count(*) FROM @_tidegate_marks@") == [(1,)]
    sink.clean(IDENTITY, 0)
    assert place.execute("SELECT count(*) FROM @_tidegate_marks@") == [(0,)]
    assert error_of(sink.begin(attempt_of(task=1)), row(9, "late")).code == "TG-EPOCH-FINISHED"
