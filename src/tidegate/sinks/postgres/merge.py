"""The statements that take the rows of a stage into the table.

The stages of an epoch are taken in the order of their tasks, each by statements of its own. So a later task replaces
what an earlier one wrote under the same key. Within a stage the row with the highest number wins.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.sinks.postgres.declared import DeclaredPostgresSink, qualified
from tidegate.sinks.postgres.server import Session, run
from tidegate.sinks.postgres.shape import DELETED, RESERVED, ROW
from tidegate.sinks.sql_names import list_of, quoted


def take(connection: Session, sink: DeclaredPostgresSink, stage: str) -> int:
    """Take all rows of a stage, inside the open transaction. Returns the number of rows that were inserted."""
    names = _columns_of(connection, sink.schema, stage)
    touched = [run(connection, statement).rowcount for statement in _statements(sink, stage, names)]
    return touched[-1]


def _statements(sink: DeclaredPostgresSink, stage: str, names: list[str]) -> Iterator[str]:
    into = f"INSERT INTO {qualified(sink, sink.table)} ({list_of(names)})"
    if not sink.key:
        yield f"{into} SELECT {list_of(names)} FROM {qualified(sink, stage)}"
        return
    key = list_of(sink.key)
    newest = f"(SELECT DISTINCT ON ({key}) * FROM {qualified(sink, stage)} ORDER BY {key}, {ROW} DESC) AS newest"
    kept = ""
    if sink.deleted is not None:
        same_key = " AND ".join(f"gone.{quoted(name)} = newest.{quoted(name)}" for name in sink.key)
        yield (
            f"DELETE FROM {qualified(sink, sink.table)} AS gone USING {newest} WHERE newest.{DELETED} AND {same_key}"
        )
        kept = f" WHERE NOT newest.{DELETED}"
    others = [f"{quoted(name)} = excluded.{quoted(name)}" for name in names if name not in sink.key]
    action = f"DO UPDATE SET {', '.join(others)}" if others else "DO NOTHING"
    yield f"{into} SELECT {list_of(names)} FROM {newest}{kept} ON CONFLICT ({key}) {action}"


def _columns_of(connection: Session, schema: str, stage: str) -> list[str]:
    """The columns of the rows in a stage, in their order."""
    rows = run(connection, _COLUMNS, (schema, stage))
    return [name for (name,) in rows if not name.startswith(RESERVED)]


_COLUMNS = """
SELECT a.attname::text FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
