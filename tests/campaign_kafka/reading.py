"""Reads topics and the table to their very end, into columns."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing

import numpy as np

from tests.campaign.places import ROWS, Places
from tests.campaign_kafka.checker import Input, Rows, Sums
from tests.campaign_kafka.records import Ints, Records, key_number
from tests.campaign_kafka.scene import Scene
from tidegate.testing.kafka.topics import messages, place_of

_ROW_COLUMNS = ("number", "key", "seq", "epoch", "mark")
_SUM_COLUMNS = ("key", "seen", "newest", "kept", "epoch", "mark")


def read_input(scene: Scene, records: Records) -> tuple[Input, list[str]]:
    """Where each record stands in the input topic, and what is wrong with the topic itself."""
    partition, offset, columns = _read_topic(scene.servers, scene.input, ("number",))
    number = columns["number"]
    flaws: list[str] = []
    if not np.array_equal(np.sort(number), np.arange(len(records))):
        flaws.append(f"the input topic holds {len(number)} records, {len(np.unique(number))} different ones")
    if np.any((partition[1:] == partition[:-1]) & (number[1:] < number[:-1])):
        flaws.append("the input topic holds records that are not in their order")
    where = np.full(len(records), -1, np.int64)
    at = where.copy()
    where[number], at[number] = partition, offset
    return Input(records, where, at), flaws


def read_rows(scene: Scene, places: Places) -> dict[str, Rows]:
    """What the sinks of `rows` show."""
    partition, _, found = _read_topic(scene.servers, scene.rows, _ROW_COLUMNS)
    with closing(sqlite3.connect(places.database)) as database:
        cursor = database.execute(f"SELECT {', '.join(_ROW_COLUMNS)} FROM {ROWS}")
        table = _columns(_ROW_COLUMNS, cursor.fetchall())
    return {"rows-topic": Rows(**found, partition=partition), "rows-table": Rows(**table)}


def read_sums(scene: Scene) -> dict[str, Sums]:
    """What the sinks of `sums` show."""
    sinks: dict[str, Sums] = {}
    for uid, topic in (("sums-topic", scene.sums), ("sums-mirror", scene.mirror)):
        partition, _, found = _read_topic(scene.servers, topic, _SUM_COLUMNS)
        sinks[uid] = Sums(**found, partition=partition)
    return sinks


def _read_topic(servers: str, topic: str, columns: Sequence[str]) -> tuple[Ints, Ints, dict[str, Ints]]:
    """Partition, offset and columns of every record that a read_committed reader sees, in order in each partition.

    Raises NotReadToTheEnd when an open transaction stands before the high watermark.
    """
    places: list[tuple[int, int]] = []
    rows: list[tuple[object, ...]] = []
    for message in messages(servers, topic):
        row = json.loads(message.value() or b"{}")
        places.append(place_of(message))
        rows.append(tuple(row.get(column, -1) for column in columns))
    at = np.array(places, np.int64).reshape(-1, 2)
    order = np.lexsort((at[:, 1], at[:, 0]))
    found = {name: values[order] for name, values in _columns(columns, rows).items()}
    return at[order, 0], at[order, 1], found


def _columns(names: Sequence[str], rows: Sequence[tuple[object, ...]]) -> dict[str, Ints]:
    """Rows as columns of numbers; a key by its number, what is no number as -1."""
    found: dict[str, Ints] = {}
    for index, name in enumerate(names):
        values = (row[index] for row in rows)
        numbers = [key_number(str(value)) if name == "key" else _number(value) for value in values]
        found[name] = np.array(numbers, np.int64)
    return found


def _number(value: object) -> int:
    return value if isinstance(value, int) else -1
