"""The options of a SQLite sink as the program declares them: what its checks, description and commit phase read."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from tidegate.sinks.sqlite.conflicts import OnConflict
from tidegate.sinks.sqlite.values import SQLiteRules


class DeclaredSQLiteSink(Protocol):
    """The options of a `SQLiteSink`. `conflicts_into`: the table of the query's dead letters in the same database."""

    uid: str
    path: Path
    table: str
    key: tuple[str, ...]
    rules: SQLiteRules
    on_conflict: OnConflict
    conflicts_into: str | None
