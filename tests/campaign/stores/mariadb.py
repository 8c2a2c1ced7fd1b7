"""MariaDB, by either protocol. The staged one writes by LOAD DATA LOCAL."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.campaign.places import SUMS
from tests.campaign.stores.store import ADDRESS, COLUMNS, NEWEST, ServerCrash, Store, names_in
from tests.support.variables import variables
from tidegate.sinks.base import TwoPhaseSink

_HOST, _DATABASE = "127.0.0.1", "campaign"


class MariaDB(Store):
    """Only the protocol `staged` replaces rows by key."""

    def __init__(self, protocol: str) -> None:
        self._protocol = protocol
        self.keyed = (NEWEST,) if protocol == "staged" else ()

    @contextmanager
    def serve(self, folder: Path) -> Generator[ServerCrash]:
        from tests.support.mariadb import started

        server = started()
        try:
            server.execute(f"CREATE DATABASE {_DATABASE}")
            with variables({ADDRESS: json.dumps(server.options(local_infile=True))}):
                yield ServerCrash(server)
        finally:
            server.remove()

    def sinks(self, query: str) -> list[TwoPhaseSink]:
        from tidegate import MySQLSink

        options = json.loads(os.environ[ADDRESS])
        tables = [
            MySQLSink(
                f"{query}-store", _HOST, database=_DATABASE, table=query, protocol=self._protocol, options=options
            )
        ]
        if query == SUMS and self.keyed:
            newest = MySQLSink(f"{query}-newest", _HOST, database=_DATABASE, table=NEWEST, key="word", options=options)
            tables.append(newest)
        return [*tables]

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        return _asked(f"SELECT {', '.join(f'`{name}`' for name in COLUMNS[table])} FROM `{table}`")

    def left_over(self) -> dict[str, list[str]]:
        stages = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_NAME LIKE '\\_tidegate\\_stage%'"
        return {
            "staging tables": names_in(_asked(stages)),
            "XA branches": [str(xid) for *_, xid in _asked("XA RECOVER FORMAT='SQL'")],
            "open transactions": names_in(_asked("SELECT trx_id FROM information_schema.INNODB_TRX")),
        }


def _asked(query: str) -> list[tuple[Any, ...]]:
    import pymysql

    given = json.loads(os.environ[ADDRESS])
    with (
        pymysql.connect(host=_HOST, database=_DATABASE, autocommit=True, **given) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(query)
        return list(cursor.fetchall())
