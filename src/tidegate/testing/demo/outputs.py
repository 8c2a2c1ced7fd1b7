"""Records of the demo's sinks, as a reader finds them. What is no whole record is one that no input explains."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from tidegate.testing.checker import Change, InputLine


def rows_of(texts: Iterable[str]) -> Iterator[tuple[dict[str, Any], str]]:
    """Each text, and the JSON object in it; an empty one where there is none."""
    for text in texts:
        try:
            yield msgspec.json.decode(text, type=dict[str, Any]), text
        except msgspec.DecodeError:
            yield {}, text


def as_line(row: dict[str, Any], text: str) -> InputLine:
    return InputLine(row["number"], row["text"]) if {"number", "text"} <= row.keys() else InputLine(-1, text)


def as_change(row: dict[str, Any], text: str) -> Change:
    return Change(row["word"], row["count"]) if {"word", "count"} <= row.keys() else Change(text, -1)


def read_table(database: Path) -> dict[str, int]:
    """The words of the SQLite table; none where it was never made."""
    if not database.exists():
        return {}
    with closing(sqlite3.connect(database)) as connection:
        return dict(connection.execute("SELECT word, count FROM counts"))
