"""The statements that take the rows of a stage into the table.

The stages of an epoch are taken in the order of their tasks, each by statements of its own. So a later task replaces
what an earlier one wrote under the same key. Within a stage the row with the highest number wins. Keys are compared by
the server, with the collation of the column: where it takes 'a' and 'A ' for one key, so does this.

ON DUPLICATE KEY UPDATE and REPLACE look at every unique index, so a row could replace one with another key. Therefore
rows are deleted and updated by the key, and the rest is inserted: another unique index that is broken is an error.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.sinks.mysql.declared import DeclaredMySQLSink
from tidegate.sinks.mysql.names import DELETED, RESERVED, ROW, list_of, quoted
from tidegate.sinks.mysql.server import MySQLSession, run, run_exactly


def take(connection: MySQLSession, sink: DeclaredMySQLSink, stage: str) -> int:
    """Take all rows of a stage, inside the open transaction. Returns the number of rows that were inserted."""
    statements = _statements(sink, quoted(stage), _columns_of(connection, stage))
    touched = [run_exactly(connection, statement) for statement in statements]
    return touched[-1]


def _statements(sink: DeclaredMySQLSink, stage: str, names: list[str]) -> Iterator[str]:
    table = quoted(sink.table)
    if not sink.key:
        yield f"INSERT INTO {table} ({list_of(names)}) SELECT {list_of(names)} FROM {stage} ORDER BY {quoted(ROW)}"
        return
    newest = (
        f"(SELECT s.* FROM {stage} s JOIN (SELECT MAX({quoted(ROW)}) AS last FROM {stage} GROUP BY"
        f" {list_of(sink.key)}) n ON s.{quoted(ROW)} = n.last) newest"
    )
    same_key = " AND ".join(f"t.{quoted(name)} = newest.{quoted(name)}" for name in sink.key)
    stays = "TRUE"
    if sink.deleted is not None:
        yield f"DELETE t FROM {table} t JOIN {newest} ON {same_key} WHERE newest.{quoted(DELETED)}"
        stays = f"NOT newest.{quoted(DELETED)}"
    values = ", ".join(f"t.{quoted(name)} = newest.{quoted(name)}" for name in names)
    yield f"UPDATE {table} t JOIN {newest} ON {same_key} SET {values} WHERE {stays}"
    yield (
        f"INSERT INTO {table} ({list_of(names)}) SELECT {list_of(names, 'newest')} FROM {newest}"
        f" LEFT JOIN {table} t ON {same_key} WHERE t.{quoted(sink.key[0])} IS NULL AND {stays}"
        f" ORDER BY newest.{quoted(ROW)}"
    )


def _columns_of(connection: MySQLSession, stage: str) -> list[str]:
    """The columns of the rows in a stage, in their order."""
    return [str(name) for (name,) in run(connection, _COLUMNS, (stage,)) if not str(name).startswith(RESERVED)]


_COLUMNS = """
SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s
ORDER BY ORDINAL_POSITION
"""
