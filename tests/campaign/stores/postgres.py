"""PostgreSQL 18, by either protocol."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.campaign.places import SUMS
from tests.campaign.stores.store import ADDRESS, COLUMNS, NEWEST, ServerCrash, Store, names_in
from tests.support.variables import variables
from tidegate.sinks.base import TwoPhaseSink

STAGES = r"SELECT relname FROM pg_class WHERE relname LIKE '\_tidegate\_stage%' AND relkind = 'r'"
LOCKS = "SELECT mode FROM pg_locks WHERE pid <> pg_backend_pid() AND locktype = 'relation'"


class Postgres(Store):
    """Only the protocol `staged` replaces rows by key."""

    def __init__(self, protocol: str) -> None:
        self._protocol = protocol
        self.keyed = (NEWEST,) if protocol == "staged" else ()

    @contextmanager
    def serve(self, folder: Path) -> Generator[ServerCrash]:
        from tests.support.postgres import started

        server = started(max_prepared_transactions="0" if self.keyed else "64")
        try:
            with variables({ADDRESS: server.conninfo}):
                yield ServerCrash(server)
        finally:
            server.remove()

    def sinks(self, query: str) -> list[TwoPhaseSink]:
        from tidegate import PostgresSink

        tables = [PostgresSink(f"{query}-store", os.environ[ADDRESS], table=query, protocol=self._protocol)]
        if query == SUMS and self.keyed:
            tables.append(PostgresSink(f"{query}-newest", os.environ[ADDRESS], table=NEWEST, key="word"))
        return [*tables]

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        return asked(f"SELECT {', '.join(COLUMNS[table])} FROM {table}")

    def left_over(self) -> dict[str, list[str]]:
        return {
            "staging tables": names_in(asked(STAGES)),
            "prepared transactions": names_in(asked("SELECT gid FROM pg_prepared_xacts")),
            "locks": names_in(asked(LOCKS)),
        }


def asked(query: str) -> list[tuple[Any, ...]]:
    """The rows of a query to the store."""
    import psycopg

    with psycopg.connect(os.environ[ADDRESS], autocommit=True) as connection:
        return connection.execute(query.encode()).fetchall()
