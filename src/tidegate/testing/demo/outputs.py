"""What a reader of the demo's sinks sees."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from tidegate.testing.checker import Change, Line, Sinks
from tidegate.testing.demo.places import Places


def read_sinks(places: Places) -> Sinks:
    """Every visible record of the three sinks. What is no whole record is given as one that no input explains."""
    return Sinks(
        lines=[_line(row, text) for row, text in _rows(places.lines)],
        changes=[_change(row, text) for row, text in _rows(places.changes)],
        table=_table(places.table),
    )


def _rows(folder: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """The rows of all visible files; hidden are, as for Spark, names that begin with `.` or `_`."""
    for file in sorted(folder.glob("[!._]*.json")):
        # Not `splitlines`: a JSON text may have other line separators of Unicode in it.
        for text in filter(None, file.read_text(encoding="utf-8").split("\n")):
            try:
                yield msgspec.json.decode(text, type=dict[str, Any]), text
            except msgspec.DecodeError:
                yield {}, text


def _line(row: dict[str, Any], text: str) -> Line:
    return Line(row["number"], row["text"]) if {"number", "text"} <= row.keys() else Line(-1, text)


def _change(row: dict[str, Any], text: str) -> Change:
    return Change(row["word"], row["count"]) if {"word", "count"} <= row.keys() else Change(text, -1)


def _table(database: Path) -> dict[str, int]:
    if not database.exists():
        return {}
    with closing(sqlite3.connect(database)) as connection:
        return dict(connection.execute("SELECT word, count FROM counts"))
