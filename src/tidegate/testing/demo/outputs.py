"""Parses the records in the demo's sinks. An incomplete record becomes one that matches no input, so it is reported."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from tidegate.core.json_formats import Unreadable, parsed
from tidegate.testing.checker import Change, InputLine


def rows_of(texts: Iterable[str]) -> Iterator[tuple[dict[str, Any], str]]:
    """For each text, the JSON object in it and the text. The object is empty if the text is not a JSON object."""
    for text in texts:
        try:
            yield parsed(text, dict[str, Any]), text
        except Unreadable:
            yield {}, text


def as_line(row: dict[str, Any], text: str) -> InputLine:
    return InputLine(row["number"], row["text"]) if {"number", "text"} <= row.keys() else InputLine(-1, text)


def as_change(row: dict[str, Any], text: str) -> Change:
    return Change(row["word"], row["count"]) if {"word", "count"} <= row.keys() else Change(text, -1)


def read_table(database: Path) -> dict[str, int]:
    """Words and counts in the SQLite table; empty if the database does not exist."""
    if not database.exists():
        return {}
    with closing(sqlite3.connect(database)) as connection:
        return dict(connection.execute("SELECT word, count FROM counts"))
