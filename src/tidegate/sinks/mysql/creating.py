"""The table that the sink creates if it is missing."""

from __future__ import annotations

import pyarrow as pa

from tidegate.sinks.arrow import fields_of
from tidegate.sinks.mysql.declared import DeclaredMySQLSink
from tidegate.sinks.mysql.names import list_of, quoted
from tidegate.sinks.mysql.server import MySQLSession, run
from tidegate.sinks.mysql.table import ENGINE, table_of
from tidegate.sinks.mysql.types import created_as, key_length_of


def create_table(connection: MySQLSession, sink: DeclaredMySQLSink, schema: pa.Schema) -> None:
    """Create the table of a sink for rows of `schema`, unless it exists. Two drivers may do it at once."""
    if table_of(connection, sink.table) is not None:
        return
    fields = [field for field in fields_of(schema) if field.name != sink.deleted]
    length = key_length_of(fields, sink.key)
    columns = [
        f"{quoted(each.name)} {created_as(each.type, length if each.name in sink.key else 0)}"
        f" {'NOT NULL' if each.name in sink.key else 'NULL'}"
        for each in fields
    ]
    if sink.key:
        columns.append(f"PRIMARY KEY ({list_of(sink.key)})")
    run(
        connection,
        f"CREATE TABLE IF NOT EXISTS {quoted(sink.table)} ({', '.join(columns)})"
        f" ENGINE={ENGINE} DEFAULT CHARACTER SET utf8mb4 COLLATE {_exact_collation(connection)}",
    )


def _exact_collation(connection: MySQLSession) -> str:
    """A collation in which only equal texts are equal; spaces at their ends count, where the server has such a one."""
    known = {str(name) for (name,) in run(connection, _COLLATIONS)}
    return next(name for name in (*_WITHOUT_PADDING, "utf8mb4_bin") if name in known)


_WITHOUT_PADDING = ("utf8mb4_0900_bin", "utf8mb4_nopad_bin")
"""MySQL's and MariaDB's."""
_COLLATIONS = "SELECT COLLATION_NAME FROM information_schema.COLLATIONS WHERE CHARACTER_SET_NAME = 'utf8mb4'"
