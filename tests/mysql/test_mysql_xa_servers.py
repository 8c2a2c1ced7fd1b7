"""MySQL by XA on servers that do not allow it, or whose table changes beside it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pymysql
import pytest

from tests.mysql.test_mysql_tables import Place
from tests.mysql.test_mysql_xa_faults import XaPlace, task_of
from tests.support.database_faults import a_column_that_is_dropped_before_a_task_fails_its_epoch
from tests.support.mariadb import MariaDBServer, quoted
from tests.support.staged import outcome, plan
from tests.support.today import turn
from tests.upsert.places import OnMySQL
from tests.upsert.places import plan as upsert_plan
from tidegate.core.errors import TidegateError
from tidegate.core.records import Outcome
from tidegate.sinks.mysql import xa_check
from tidegate.testing.contract import SCHEMA, attempt_of, rows_from

GROUP = "7d1a3c52-0000-4000-8000-5a3d8b0c9e11"


@pytest.fixture
def place(mariadb: MariaDBServer) -> Iterator[XaPlace]:
    yield XaPlace(mariadb, mariadb.database())
    mariadb.end_branches()


@pytest.fixture
def place_8(mysql8: MariaDBServer) -> Iterator[XaPlace]:
    yield XaPlace(mysql8, mysql8.database())
    mysql8.end_branches()


# --- rights --------------------------------------------------------------------------------------------------------


@turn(1, of=4)
def test_a_user_who_may_not_list_branches_is_refused_until_the_right_is_granted(place_8: XaPlace) -> None:
    user, password = f"writer-{secrets.token_hex(4)}", "hidden too"
    place_8.server.execute(f"CREATE USER '{user}'@'%%' IDENTIFIED BY '{password}'", ())
    place_8.server.execute(f"GRANT ALL ON {quoted(place_8.database)}.* TO '{user}'@'%%'", ())
    sink = place_8.sink(options={"user": user, "password": password})
    (violation,) = sink.check(plan(SCHEMA))
    assert (violation.code, "XA RECOVER" in violation.expected) == ("TG-SINK-UNUSABLE", True)
    assert "error 1401" in violation.found, "the server says only that"
    assert "GRANT XA_RECOVER_ADMIN ON *.* TO" in violation.next_step
    assert place_8.sink(options={"user": user, "password": password}, protocol="staged").check(plan(SCHEMA)) == []
    place_8.server.execute(f"GRANT XA_RECOVER_ADMIN ON *.* TO '{user}'@'%%'", ())
    assert sink.check(plan(SCHEMA)) == []
    sink.open(plan(SCHEMA))
    assert outcome(sink, task_of(sink)) is Outcome.COMMITTED
    assert place_8.count() == 2


# --- clusters ------------------------------------------------------------------------------------------------------


@turn(1, of=4)
def test_a_server_of_a_replication_group_is_refused_for_xa_and_for_upserts(place_8: XaPlace) -> None:
    """The plugin alone makes no group; its name does."""
    server = place_8.server
    server.execute("INSTALL PLUGIN group_replication SONAME 'group_replication.so'")
    try:
        assert place_8.sink().check(plan(SCHEMA)) == []
        server.execute(f"SET GLOBAL group_replication_group_name = '{GROUP}'")
        refused_as_a_cluster(place_8, f"group_replication_group_name={GROUP}")
    finally:
        server.execute("UNINSTALL PLUGIN group_replication")
    assert place_8.sink().check(plan(SCHEMA)) == []


@pytest.mark.parametrize("value", ["OFF", "0", ""])
def test_a_server_that_could_be_a_node_of_galera_and_is_none_is_taken(
    place: XaPlace, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    """Servers show the variable in several ways. A real cluster is in `test_mysql_galera.py`."""
    found = {"wsrep_on": value} if value else {}
    monkeypatch.setattr(xa_check, "variables", lambda connection, *names: found)  # pyright: ignore[reportUnknownLambdaType]
    assert place.sink().check(plan(SCHEMA)) == []
    assert OnMySQL(place.server, place.database).sink().check(upsert_plan()) == []


def refused_as_a_cluster(place: Place, setting: str) -> None:
    (violation,) = place.sink().check(plan(SCHEMA))
    assert violation.code == "TG-SINK-UNUSABLE"
    assert violation.found.startswith(f"a cluster: {setting};")
    assert "'staged' needs no XA" in violation.next_step
    assert place.sink(protocol="staged").check(plan(SCHEMA)) == []
    (violation,) = OnMySQL(place.server, place.database).sink().check(upsert_plan())
    assert (violation.code, violation.found) == ("TG-SINK-UNUSABLE", f"a cluster: {setting}")
    assert "use MySQLSink with the same key=" in violation.next_step


# --- tables that change --------------------------------------------------------------------------------------------


def test_a_column_that_is_dropped_before_a_task_fails_its_epoch(place: XaPlace) -> None:
    sink = place.opened()
    a_column_that_is_dropped_before_a_task_fails_its_epoch(
        sink,
        lambda: task_of(sink),
        lambda: place.make("ALTER TABLE t DROP COLUMN word"),
        lambda: place.make("ALTER TABLE t ADD COLUMN word TEXT"),
        place.server.branches,
        place.count,
    )


def test_an_alter_table_beside_a_prepared_branch_waits_and_takes_nothing_of_it(place: XaPlace) -> None:
    sink = place.opened()
    committable = task_of(sink)
    with pytest.raises(pymysql.err.OperationalError, match="Lock wait timeout"):
        place.server.execute(
            "ALTER TABLE t DROP COLUMN word", database=place.database, init_command="SET lock_wait_timeout = 1"
        )
    assert outcome(sink, committable) is Outcome.COMMITTED
    place.make("ALTER TABLE t DROP COLUMN word")
    assert place.count() == 2
    sink.in_epoch(0)
    with pytest.raises(TidegateError, match="a table without 'word'"):
        task_of(sink, attempt_of(epoch=1), rows_from(11, 2))
