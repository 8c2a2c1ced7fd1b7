"""The description of a SQLite sink that a start writes, and the check of its database without the job's program."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from tidegate.core.health import Finding, failed, ok
from tidegate.sinks.sqlite.declared import DeclaredSQLiteSink
from tidegate.sinks.staging import unwritable


class SQLiteTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a `SQLiteSink`."""

    path: str
    table: str
    key: tuple[str, ...]
    invalid_text: str = "refuse"
    nan: str = "refuse"
    on_conflict: str = "fail"
    conflicts_into: str | None = None

    def __str__(self) -> str:
        return f"SQLite {self.path}, table {self.table}"


def target_of(sink: DeclaredSQLiteSink) -> SQLiteTarget:
    return SQLiteTarget(
        path=str(sink.path),
        table=sink.table,
        key=sink.key,
        invalid_text=sink.rules.invalid_text.value,
        nan=sink.rules.nan.value,
        on_conflict=sink.on_conflict.value,
        conflicts_into=sink.conflicts_into,
    )


def probed(sink: DeclaredSQLiteSink, what: str) -> Sequence[Finding]:
    """Takes and releases the write lock of the database. Writes nothing."""
    return [_probed(sink.path, what)]


def _probed(path: Path, what: str) -> Finding:
    if not path.exists():
        flaw = unwritable(path.parent)
        if flaw is not None:
            return failed(what, flaw, "give this user the right to write there")
        return ok(what, f"{path} does not exist yet and can be created")
    try:
        uri = f"{path.as_uri()}?mode=rw"
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=_BUSY_SECONDS)) as target:
            target.execute("BEGIN IMMEDIATE")
            target.execute("ROLLBACK")
            size = path.stat().st_size
    except sqlite3.OperationalError as error:
        return failed(
            what, f"{path}: {error}", "end the program that holds the database, or repair the file and its rights"
        )
    except sqlite3.DatabaseError as error:
        return failed(what, f"{path}: {error}", "put the database back from a copy together with its checkpoint")
    return ok(what, f"{path} ({size} bytes) can be opened and is not locked")


_BUSY_SECONDS = 1.0
