"""Reads what the job has made visible, with the sinks' own readers: SQLite, Parquet, JSON lines."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

from tests.campaign.checker import Outputs, Row, Sum
from tests.campaign.places import ROWS, SUMS, Places


def read_outputs(places: Places) -> Outputs:
    """Every visible row of the six sinks."""
    parquet = sorted(str(file) for file in places.files(ROWS).glob("[!._]*.parquet"))
    rows = ds.dataset(parquet, format="parquet").to_table().to_pylist() if parquet else []
    return Outputs(
        rows={
            "rows-table": [Row(*row) for row in _table(places.database, "SELECT number, word, value, lucky FROM rows")],
            "rows-files": [Row(**row) for row in rows],
            "rows-tray": [Row(**row) for row in _lines(places.tray(ROWS) / "shown", "*")],
        },
        sums={
            "sums-table": [
                Sum(*row) for row in _table(places.database, "SELECT word, seen, total, chain, last, lucky FROM sums")
            ],
            "sums-files": [Sum(**row) for row in _lines(places.files(SUMS), "[!._]*.json")],
            "sums-tray": [Sum(**row) for row in _lines(places.tray(SUMS) / "shown", "*")],
        },
    )


def _table(database: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute(query).fetchall()


def _lines(folder: Path, pattern: str) -> Iterator[dict[str, Any]]:
    for file in sorted(folder.glob(pattern)):
        yield from map(json.loads, file.read_text().splitlines())
