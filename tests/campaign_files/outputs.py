"""Reads what the job has made visible."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

from tests.campaign.places import ROWS, SUMS, Places
from tests.campaign_files.checker import Outputs, Row, Sum
from tests.campaign_files.scene import ROWS_PER_FILE

_SEEN = {
    ROWS: f"SELECT DISTINCT file, number / {ROWS_PER_FILE} FROM rows",
    SUMS: "SELECT file, serial FROM sums",
}


def read_outputs(places: Places) -> Outputs:
    """Every visible row."""
    files = sorted(places.files(ROWS).local().glob("[!._]*.json"))
    lines = [line for file in files for line in file.read_text().splitlines()]
    return Outputs(
        table=[Row(*row) for row in _table(places, "SELECT file, number, value, lucky FROM rows")],
        files=[Row(**json.loads(line)) for line in lines],
        sums=[Sum(*row) for row in _table(places, "SELECT file, serial, seen, total FROM sums")],
    )


def visible(places: Places, query: str) -> set[tuple[str, int]]:
    """Path and serial of every file of which the query shows rows."""
    return set(_table(places, _SEEN[query]))


def _table(places: Places, query: str) -> list[tuple[Any, ...]]:
    if not places.database.exists():
        return []
    with closing(sqlite3.connect(places.database)) as connection:
        try:
            return connection.execute(query).fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return []
            raise
