"""The rules of an existing SQLite table that one row alone can break: NOT NULL, CHECK, and the types of a STRICT table.

They are tested in the task, before the pre-commit. UNIQUE is not among them: it depends on the rows in the table at the
commit (`tidegate.sinks.sqlite.conflicts`). Triggers are not tested either.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

from tidegate.core.telling import shortened
from tidegate.sinks.rows import RowRefused
from tidegate.sinks.sql_names import list_of, quoted

_FOUND_AT_MOST = 200


@dataclass(frozen=True, slots=True)
class Constraints:
    """The requirements of a table on each row. `created_by`: its CREATE TABLE. `not_null`: the columns that take no
    NULL, in lower case. `must_be_tried`: True if only SQLite itself can test a row.
    """

    table: str
    created_by: str
    not_null: frozenset[str]
    must_be_tried: bool

    def not_null_of(self, names: Sequence[str]) -> list[str]:
        """The columns of `names` that take no NULL."""
        return [name for name in names if name.lower() in self.not_null]

    def refused(self, names: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[RowRefused]:
        """The rows that an empty copy of the table refuses. `rows`: bound values in the order of `names`; columns
        without NULL have none.
        """
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as trial:
            trial.execute(self.created_by)
            into = f"INTO {quoted(self.table)} ({list_of(names)}) VALUES ({', '.join('?' * len(names))})"
            trial.execute("BEGIN")
            try:
                trial.executemany(f"INSERT OR REPLACE {into}", rows)  # rows with the same key replace each other
            except sqlite3.IntegrityError:
                trial.execute("ROLLBACK")
            else:
                return
            for number, row in enumerate(rows):
                trial.execute("BEGIN")
                try:
                    trial.execute(f"INSERT {into}", row)
                except sqlite3.IntegrityError as error:
                    yield _refusal(number, error)
                trial.execute("ROLLBACK")


def constraints_of(target: sqlite3.Connection, table: str) -> Constraints | None:
    """The constraints of a table; None if the table does not exist."""
    of_table = "FROM main.sqlite_master WHERE type = 'table' AND lower(name) = lower(?)"
    found = target.execute(f"SELECT name, sql {of_table}", (table,)).fetchone()
    if found is None:
        return None
    name, created_by = found
    columns = target.execute('SELECT lower(name) FROM pragma_table_info(?) WHERE "notnull"', (name,)).fetchall()
    # With an ON CONFLICT clause of its own, a column fills the null or drops the row, as the table's owner wants.
    not_null = () if re.search(r"\bON\s+CONFLICT\b", created_by, re.IGNORECASE) else (each for (each,) in columns)
    must_be_tried = re.search(r"\bCHECK\b|\bSTRICT\b", created_by, re.IGNORECASE) is not None
    return Constraints(name, created_by, frozenset(not_null), must_be_tried)


def _refusal(row: int, error: sqlite3.IntegrityError) -> RowRefused:
    return RowRefused(
        row=row,
        expected="a row that the table's own constraints allow",
        found=shortened(str(error), _FOUND_AT_MOST),
        next_step="change the values in select=[...], leave such rows out with where=, or give the query dead_letters=",
    )
