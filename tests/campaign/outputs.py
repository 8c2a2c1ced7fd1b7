"""Reads what the job has made visible, with the sinks' own readers: SQLite, Parquet, JSON lines."""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.campaign.checker import Outputs, Row, Sum
from tests.campaign.footprint import patiently
from tests.campaign.places import ROWS, SUMS, Places
from tests.campaign.stores.named import STORES
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder


def read_outputs(places: Places) -> Outputs:
    """Every visible row of all sinks."""
    if places.on_cluster:
        return Outputs(
            rows={
                "rows-files": [Row(**row) for row in _parquet(places.files(ROWS))],
                "rows-more": [Row(**row) for row in _parquet(places.more_files(ROWS))],
            },
            sums={
                "sums-files": [Sum(**row) for row in _lines(places.files(SUMS))],
                "sums-more": [Sum(**row) for row in _lines(places.more_files(SUMS))],
            },
        )
    if places.store is not None:
        store = STORES[places.store]
        return Outputs(
            rows={
                "rows-store": [Row(*row) for row in store.rows(ROWS)],
                "rows-files": [Row(**row) for row in _parquet(places.files(ROWS))],
            },
            sums={
                "sums-store": [Sum(*row) for row in store.rows(SUMS)],
                "sums-files": [Sum(**row) for row in _lines(places.files(SUMS))],
            },
            newest={name: [Sum(*row) for row in store.rows(name)] for name in store.keyed},
        )
    return Outputs(
        rows={
            "rows-table": [Row(*row) for row in _table(places.database, "SELECT number, word, value, lucky FROM rows")],
            "rows-files": [Row(**row) for row in _parquet(places.files(ROWS))],
            "rows-tray": [Row(**row) for row in _lines(Folder.of(str(places.tray(ROWS) / "shown")))],
        },
        sums={
            "sums-table": [
                Sum(*row) for row in _table(places.database, "SELECT word, seen, total, chain, last, lucky FROM sums")
            ],
            "sums-files": [Sum(**row) for row in _lines(places.files(SUMS))],
            "sums-tray": [Sum(**row) for row in _lines(Folder.of(str(places.tray(SUMS) / "shown")))],
        },
    )


def _table(database: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute(query).fetchall()


def _parquet(folder: Folder) -> Iterator[dict[str, Any]]:
    for data in _visible(folder):
        yield from pq.read_table(io.BytesIO(data)).to_pylist()


def _lines(folder: Folder) -> Iterator[dict[str, Any]]:
    for data in _visible(folder):
        yield from map(json.loads, data.splitlines())


def _visible(folder: Folder) -> Iterator[bytes]:
    """What a reader that lists the folder finds."""
    storage = open_storage(folder)
    for name in patiently(lambda: storage.peek_names("")):
        data = b"" if name.startswith((".", "_")) else patiently(partial(storage.peek, name))
        if data:
            yield data
