"""Upserts into PostgreSQL 18. Rows are visible inside their epoch, so they are compared when all input is through."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.campaign.places import ROWS, SUMS
from tests.campaign.stores.postgres import LOCKS, STAGES, asked
from tests.campaign.stores.store import ADDRESS, COLUMNS, NEWEST, ServerCrash, Store, names_in
from tests.support.variables import variables
from tidegate.sinks.base import TwoPhaseSink

_KEYS: Mapping[str, Sequence[str]] = {ROWS: ("number",), SUMS: ("word", "seen"), NEWEST: ("word",)}


class Upsert(Store):
    """What is left over would be marks of attempts that no epoch has taken, stages and locks."""

    keyed = (NEWEST,)
    points = ("recover.begun",)

    @contextmanager
    def serve(self, folder: Path) -> Generator[ServerCrash]:
        from tests.support.postgres import started

        server = started()
        try:
            with variables({ADDRESS: server.url}):
                yield ServerCrash(server)
        finally:
            server.remove()

    def sinks(self, query: str) -> list[TwoPhaseSink]:
        from tidegate import UpsertSink

        tables = {f"{query}-store": query, **({f"{query}-newest": NEWEST} if query == SUMS else {})}
        return [UpsertSink(uid, os.environ[ADDRESS], table=table, key=_KEYS[table]) for uid, table in tables.items()]

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        return asked(f"SELECT {', '.join(COLUMNS[table])} FROM {table}")

    def left_over(self) -> dict[str, list[str]]:
        return {
            "marks of attempts": names_in(asked("SELECT attempt FROM _tidegate_marks")),
            "staging tables": names_in(asked(STAGES)),
            "locks": names_in(asked(LOCKS)),
        }
