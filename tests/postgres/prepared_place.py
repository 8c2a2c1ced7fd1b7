"""A schema of the server that has prepared transactions, and what the tests of this protocol do in it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pyarrow as pa

from tests.postgres.test_postgres_tables import Place
from tests.support.postgres import end_prepared
from tests.support.staged import plan
from tidegate.core.records import Attempt, Committable
from tidegate.sinks.postgres.sink import PostgresSink
from tidegate.testing.contract import SCHEMA, attempt_of, rows_from

ROWS = rows_from(1, 2)


@dataclasses.dataclass(frozen=True)
class PreparedPlace(Place):
    """Its sinks are by prepared transactions, unless the options say otherwise."""

    def sink(self, **options: Any) -> PostgresSink:
        return super().sink(**{"protocol": "prepared", **options})

    def opened(self, **options: Any) -> PostgresSink:
        sink = self.sink(**options)
        sink.open(plan(SCHEMA))
        return sink

    def gids(self) -> list[str]:
        return [gid for (gid,) in self.server.execute("SELECT gid FROM pg_prepared_xacts ORDER BY gid")]

    def commit(self, committable: Committable) -> None:
        """By hand."""
        self.server.execute(f"COMMIT PREPARED '{committable.handle['gid']}'")

    def roll_back(self, committable: Committable) -> None:
        """By hand."""
        self.server.execute(f"ROLLBACK PREPARED '{committable.handle['gid']}'")

    def roll_back_all(self) -> None:
        """What an administrator may do at any time."""
        end_prepared(self.server)

    def count(self) -> int:
        ((count,),) = self.rows("SELECT count(*) FROM @.t")
        return count


def task_of(sink: PostgresSink, attempt: Attempt | None = None, rows: pa.RecordBatch = ROWS) -> Committable:
    """The committable of one task."""
    transaction = sink.begin(attempt or attempt_of())
    try:
        transaction.write(rows)
        committable = transaction.pre_commit()
    except BaseException:
        transaction.abort()
        raise
    assert committable is not None
    return committable
