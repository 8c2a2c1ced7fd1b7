"""The stage of the SQLite sink: one small SQLite file for each task attempt.

Its tables: `names(name)`, the columns in order, and `rows(c0, c1, ...)`, the values. `rows` uses positions instead of
names, because a column with the name "rowid" would hide the order of rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa

from tidegate.core.records import Attempt, Committable, committable_digest
from tidegate.sinks.arrow import columns_of
from tidegate.sinks.base import Transaction
from tidegate.sinks.sqlite.values import SQLiteRules, values_of
from tidegate.sinks.staging import Seal, StagedFiles

ATTACHED_AT_ONCE = 8
"""Most databases that SQLite attaches, in its default build."""

_ROWS_PER_STATEMENT = 16
"""Measured: 0.8 s for a million rows of six columns, against 1.5 s with one row in a statement; 64 are not faster."""
_VALUES_PER_STATEMENT = 999
"""SQLite's limit before 3.32."""


class SQLiteTransaction(Transaction):
    """Writes one attempt's stage file. Creates nothing on disk before the first row."""

    def __init__(self, stage: StagedFiles, attempt: Attempt, rules: SQLiteRules) -> None:
        self._stage = stage
        self._attempt = attempt
        self._rules = rules
        self._file = stage.file(attempt)
        self._connection: sqlite3.Connection | None = None
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        refused = self._rules.refused(batch)
        if refused:
            raise refused[0]
        if self._connection is None:
            self._connection = self._create(batch.schema)
        columns = [values_of(column) for column in columns_of(self._rules.prepared(batch))]
        insert_rows(self._connection, columns, batch.num_rows)
        self._rows += batch.num_rows

    def pre_commit(self) -> Committable | None:
        if self._connection is None:
            return None
        self._connection.execute("COMMIT")
        self._connection.close()
        self._stage.sync(self._attempt)
        seal = Seal.of(self._file)
        return Committable(
            attempt=self._attempt,
            rows=self._rows,
            digest=committable_digest(self._attempt, seal.checksum),
            handle=seal.as_handle(),
        )

    def abort(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._file.unlink(missing_ok=True)

    def _create(self, schema: pa.Schema) -> sqlite3.Connection:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.unlink(missing_ok=True)  # a repeated begin of the same attempt
        connection = new_stage(self._file, schema.names)
        connection.execute("BEGIN")
        return connection


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
