"""The staged protocol on a real cluster of Galera, whose nodes all take writes.

Locks hold on one node only, and a node may answer before it has what another one has committed. Writes of one row
conflict on all nodes: the second one fails at its commit.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.mysql.test_mysql_tables import Place
from tests.mysql.test_mysql_xa_faults import XaPlace
from tests.mysql.test_mysql_xa_servers import refused_as_a_cluster
from tests.support.mariadb import MariaDBServer
from tests.support.staged import ids_from, of_attempt, outcome, plan, staged
from tests.support.today import turn
from tidegate.core.records import Committable, Evidence, Outcome
from tidegate.sinks.mysql.committer import MySQLCommitter
from tidegate.sinks.mysql.sink import MySQLSink
from tidegate.testing.contract import SCHEMA, attempt_of, rows_from

EPOCHS = 25
ROWS = 40_000
"""So many that another node is still busy with them when the driver looks."""


@pytest.fixture
def places(galera: tuple[MariaDBServer, MariaDBServer]) -> tuple[Place, Place]:
    """One database, through each of two nodes."""
    database = galera[0].database()
    return Place(galera[0], database), Place(galera[1], database)


def opened(place: Place, **options: Any) -> MySQLSink:
    sink = place.sink(**options)
    sink.open(plan(SCHEMA))
    return sink


def ids_of(place: Place) -> list[int]:
    return sorted(number for (number,) in place.rows("SET STATEMENT wsrep_sync_wait = 1 FOR SELECT id FROM t"))


@turn(2, of=4)
def test_a_node_of_galera_is_refused_for_xa_and_for_upserts(places: tuple[Place, Place]) -> None:
    for place in places:
        refused_as_a_cluster(XaPlace(place.server, place.database), "wsrep_on=ON")


@turn(2, of=4)
@pytest.mark.parametrize("key", [None, "id"])
def test_an_epoch_that_was_staged_on_one_node_is_committed_on_another_one_at_once(
    places: tuple[Place, Place], key: str | None
) -> None:
    tasks, driver = (opened(place, key=key) for place in places)
    for epoch in range(4):
        committable = of_attempt(tasks, attempt_of(epoch=epoch), rows_from(epoch * ROWS, ROWS))
        assert outcome(driver, committable) is Outcome.COMMITTED
        assert tasks.evidence(committable) is Evidence.PRESENT
        assert outcome(tasks, committable) is Outcome.ALREADY
    assert len(ids_of(places[1])) == 4 * ROWS


@turn(2, of=4)
def test_two_drivers_that_commit_an_epoch_on_two_nodes_at_once_write_it_once(places: tuple[Place, Place]) -> None:
    sinks = [opened(place) for place in places]
    with ThreadPoolExecutor(2) as threads:
        for epoch in range(EPOCHS):
            committable, both = staged(sinks[0], epoch), threading.Barrier(2)
            tried = [threads.submit(committed_in_the_end, sink, committable, both) for sink in sinks]
            assert sorted(each.result().name for each in tried) == ["ALREADY", "COMMITTED"]
    assert ids_of(places[0]) == ids_of(places[1]) == ids_from(*range(EPOCHS))


def committed_in_the_end(sink: MySQLSink, committable: Committable, both: threading.Barrier) -> Outcome:
    """The loser of a conflict is told at its COMMIT, and tries again."""
    both.wait(60)
    for _ in range(10):
        found = outcome(sink, committable)
        if found is not Outcome.RETRY:
            return found
    raise AssertionError("always another answer")


@turn(2, of=4)
def test_a_paused_driver_of_an_older_generation_commits_nothing_beside_a_restored_job_on_another_node(
    places: tuple[Place, Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands still inside its commit, behind its look at the ledger. Their epochs have no row in common."""
    old, restored = (opened(place) for place in places)
    assert outcome(old, staged(old, 6)) is Outcome.COMMITTED
    late = staged(old, 7)
    reached, goes_on = threading.Event(), threading.Event()
    take_all = MySQLCommitter.take_all

    def stand_still(self: MySQLCommitter, connection: Any, committables: Sequence[Committable], counted: bool) -> None:
        take_all(self, connection, committables, counted)
        if committables[0].attempt.sink.generation == 1:
            reached.set()
            assert goes_on.wait(60)

    monkeypatch.setattr(MySQLCommitter, "take_all", stand_still)
    with ThreadPoolExecutor(1) as threads:
        tried = threads.submit(outcome, old, late)
        assert reached.wait(60)
        of_restored = of_attempt(restored, attempt_of(epoch=7, generation=2, task=3))
        assert outcome(restored, of_restored) is Outcome.COMMITTED
        goes_on.set()
        assert tried.result() is Outcome.RETRY
    assert outcome(old, late) is Outcome.UNKNOWN
    assert ids_of(places[0]) == sorted([*ids_from(6), *range(73_000, 73_002)])
