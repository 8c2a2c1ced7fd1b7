"""The stage of the SQLite sink: one small SQLite file for each task attempt.

Its tables: `names(name)`, the columns in order, and `rows(c0, c1, ...)`, the values. `rows` uses positions instead of
names, because a column with the name "rowid" would hide the order of rows.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path
from urllib.parse import quote

ATTACHED_AT_ONCE = 8
"""Most databases that SQLite attaches, in its default build."""

_ROWS_PER_STATEMENT = 16
"""Measured: 0.8 s for a million rows of six columns, against 1.5 s with one row in a statement; 64 are not faster."""
_VALUES_PER_STATEMENT = 999
"""SQLite's limit before 3.32."""


def new_stage(file: Path, names: Sequence[str]) -> sqlite3.Connection:
    """A new stage file with empty tables, without a journal and without syncs. An incomplete file is thrown away, and
    `pre_commit` syncs it once.
    """
    connection = sqlite3.connect(uri(file, "rwc"), uri=True, isolation_level=None)
    for pragma in ("journal_mode=OFF", "synchronous=OFF", "locking_mode=EXCLUSIVE"):
        connection.execute(f"PRAGMA {pragma}").close()
    connection.execute("CREATE TABLE names(name)")
    connection.execute(f"CREATE TABLE rows({', '.join(positions(names))})")
    connection.executemany("INSERT INTO names VALUES (?)", [(name,) for name in names])
    return connection


def insert_rows(connection: sqlite3.Connection, columns: Sequence[Sequence[object]], rows: int) -> None:
    """Append `rows` rows, given as columns, to the stage's table `rows`."""
    width = len(columns)
    at_once = max(1, min(_ROWS_PER_STATEMENT, _VALUES_PER_STATEMENT // width))
    whole = rows - rows % at_once
    one_row = f"({', '.join('?' * width)})"
    values = chain.from_iterable(zip(*(column[:whole] for column in columns), strict=True))
    several_rows = ", ".join([one_row] * at_once)
    connection.executemany(f"INSERT INTO rows VALUES {several_rows}", zip(*[values] * (width * at_once), strict=True))
    rest = zip(*(column[whole:] for column in columns), strict=True)
    connection.executemany(f"INSERT INTO rows VALUES {one_row}", rest)


@contextmanager
def attached(target: sqlite3.Connection, stages: Sequence[Path]) -> Generator[list[str]]:
    """Attach any number of stage files, read-only. Yields the schema names of the attached databases, which together
    hold all rows in the order of `stages`.
    """
    if len(stages) <= ATTACHED_AT_ONCE:
        yield attach(target, stages)
        return
    # Before the write lock is taken. The file stands beside the stages: a temporary folder may be too small.
    folded = stages[0].with_name(f"folded-{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        fold(stages, folded)
        yield attach(target, [folded])
    finally:
        folded.unlink(missing_ok=True)


def attach(connection: sqlite3.Connection, stages: Sequence[Path]) -> list[str]:
    """Attach stage files read-only to a connection that accepts URIs. Returns their schema names, in order."""
    schemas = [f"stage{number}" for number in range(len(stages))]
    for schema, file in zip(schemas, stages, strict=True):
        connection.execute(f"ATTACH ? AS {schema}", (_prepared(file),))
    return schemas


def detach(connection: sqlite3.Connection, schemas: Sequence[str]) -> None:
    for schema in schemas:
        connection.execute(f"DETACH {schema}")


def fold(stages: Sequence[Path], into: Path) -> None:
    """Write the rows of all `stages`, in their order, into one new stage file."""
    with closing(sqlite3.connect(_prepared(stages[0]), uri=True)) as first:
        names = names_in(first, "main")
    with closing(new_stage(into, names)) as connection:
        for start in range(0, len(stages), ATTACHED_AT_ONCE):
            schemas = attach(connection, stages[start : start + ATTACHED_AT_ONCE])
            for schema in schemas:
                connection.execute(f"INSERT INTO main.rows SELECT * FROM {schema}.rows ORDER BY rowid")
            detach(connection, schemas)


def names_in(connection: sqlite3.Connection, schema: str) -> list[str]:
    return [name for (name,) in connection.execute(f"SELECT name FROM {schema}.names ORDER BY rowid")]


def positions(names: Sequence[str]) -> list[str]:
    return [f"c{position}" for position in range(len(names))]


def uri(file: Path, mode: str) -> str:
    """SQLite's URI of `file`, with any characters in its name."""
    return f"file:{quote(str(file))}?mode={mode}"


def _prepared(file: Path) -> str:
    # Immutable: no process writes a prepared file, so SQLite needs no locks and looks for no journal.
    return uri(file, "ro&immutable=1")
