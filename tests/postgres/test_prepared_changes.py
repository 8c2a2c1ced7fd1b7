"""PostgreSQL by prepared transactions, in a table whose columns change while the job runs."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.postgres.prepared_place import PreparedPlace, task_of
from tests.support.database_faults import a_column_that_is_dropped_before_a_task_fails_its_epoch
from tests.support.postgres import PostgresServer, end_prepared
from tests.support.staged import outcome
from tidegate.core.errors import TidegateError
from tidegate.core.records import Outcome
from tidegate.testing.contract import attempt_of, rows_from


@pytest.fixture
def place(preparing: PostgresServer) -> Iterator[PreparedPlace]:
    yield PreparedPlace(preparing, preparing.schema())
    end_prepared(preparing)


def test_a_column_that_is_dropped_before_a_task_fails_its_epoch(place: PreparedPlace) -> None:
    sink = place.opened()
    a_column_that_is_dropped_before_a_task_fails_its_epoch(
        sink,
        lambda: task_of(sink),
        lambda: place.make("ALTER TABLE @.t DROP COLUMN word"),
        lambda: place.make("ALTER TABLE @.t ADD COLUMN word text"),
        place.gids,
        place.count,
    )


def test_an_alter_table_beside_a_prepared_row_waits_and_takes_nothing_of_it(place: PreparedPlace) -> None:
    sink = place.opened()
    committable = task_of(sink)
    with psycopg.connect(place.server.conninfo, autocommit=True) as other:
        other.execute("SET lock_timeout = '200ms'")
        alter = f"""ALTER TABLE "{place.schema.replace('"', '""')}".t DROP COLUMN word"""
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.execute(alter.encode())
        assert outcome(sink, committable) is Outcome.COMMITTED
        other.execute(alter.encode())
    assert place.count() == 2
    sink.in_epoch(0)
    with pytest.raises(TidegateError, match="a table without 'word'"):
        task_of(sink, attempt_of(epoch=1), rows_from(11, 2))
