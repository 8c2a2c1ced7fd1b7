"""The databases whose sinks are struck: each takes the place of SQLite beside the files of the crash campaign."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

from tests.campaign.places import ROWS, STORE, SUMS
from tests.support.variables import variables
from tidegate.sinks.base import TwoPhaseSink

ADDRESS = "CAMPAIGN_STORE_ADDRESS"
"""The environment variable with the address of the server, by which each process reaches it."""

NEWEST = "newest"
"""A table with the last row of each word."""

COLUMNS: Mapping[str, str] = {
    ROWS: "number, word, value, lucky",
    SUMS: "word, seen, total, chain, last, lucky",
    NEWEST: "word, seen, total, chain, last, lucky",
}


class Server(Protocol):
    """What a strike does to the server itself."""

    def crash(self) -> None:
        """End at once, as by a power loss, and come back on the same data."""
        ...


class Store(ABC):
    """One database with the sinks of both queries. `keyed`: its tables that keep the last row of each word."""

    keyed: Sequence[str] = ()

    @abstractmethod
    def serve(self, folder: Path) -> AbstractContextManager[Server]:
        """The server, with its data below `folder`. The environment of this process leads to it."""

    @abstractmethod
    def sinks(self, query: str) -> list[TwoPhaseSink]:
        """The sinks of a query."""

    @abstractmethod
    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """What a table shows: its `COLUMNS`."""

    @abstractmethod
    def left_over(self) -> dict[str, list[str]]:
        """What a job that has ended must not leave there, by kind."""


class Postgres(Store):
    """PostgreSQL 18. Only the protocol `staged` replaces rows by key."""

    def __init__(self, protocol: str) -> None:
        self._protocol = protocol
        self.keyed = (NEWEST,) if protocol == "staged" else ()

    @contextmanager
    def serve(self, folder: Path) -> Generator[Server]:
        from tests.support.postgres import started

        server = started(max_prepared_transactions="0" if self.keyed else "64")
        try:
            with variables({ADDRESS: server.conninfo}):
                yield server
        finally:
            server.remove()

    def sinks(self, query: str) -> list[TwoPhaseSink]:
        from tidegate import PostgresSink

        tables = [PostgresSink(f"{query}-store", os.environ[ADDRESS], table=query, protocol=self._protocol)]
        if query == SUMS and self.keyed:
            tables.append(PostgresSink(f"{query}-newest", os.environ[ADDRESS], table=NEWEST, key="word"))
        return [*tables]

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        return self._ask(f"SELECT {COLUMNS[table]} FROM {table}")

    def left_over(self) -> dict[str, list[str]]:
        stages = self._ask("SELECT relname FROM pg_class WHERE relname LIKE '\\_tidegate\\_stage%' AND relkind = 'r'")
        prepared = self._ask("SELECT gid FROM pg_prepared_xacts")
        locks = self._ask("SELECT mode FROM pg_locks WHERE pid <> pg_backend_pid() AND locktype = 'relation'")
        found = {"staging tables": stages, "prepared transactions": prepared, "locks": locks}
        return {kind: [str(name) for (name,) in names] for kind, names in found.items()}

    def _ask(self, query: str) -> list[tuple[Any, ...]]:
        import psycopg

        with psycopg.connect(os.environ[ADDRESS], autocommit=True) as connection:
            return connection.execute(query.encode()).fetchall()


STORES: Mapping[str, Store] = {"postgres": Postgres("staged"), "postgres-prepared": Postgres("prepared")}
"""Those that a campaign can strike, by name."""


@contextmanager
def serve(name: str | None, folder: Path) -> Generator[Server | None]:
    """The server of a store, if one is wanted. The environment of this process, and so of the drivers, leads to it."""
    if name is None:
        with variables({}, unset=[STORE]):
            yield None
        return
    with variables({STORE: name}), STORES[name].serve(folder) as server:
        yield server
