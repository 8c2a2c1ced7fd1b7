"""The options of a PostgreSQL sink as the program declares them: what its checks, description and commit phase read."""

from __future__ import annotations

from typing import Protocol

from tidegate.sinks.postgres.protocol import CommitProtocol
from tidegate.sinks.postgres.server import Server
from tidegate.sinks.postgres.values import PostgresRules
from tidegate.sinks.sql_names import quoted


class DeclaredPostgresSink(Protocol):
    """The options of a `PostgresSink`. `rules`: with the description of the table, once it was read."""

    uid: str
    server: Server
    schema: str
    table: str
    key: tuple[str, ...]
    deleted: str | None
    protocol: CommitProtocol
    rules: PostgresRules


def qualified(sink: DeclaredPostgresSink, table: str) -> str:
    """A table of the sink's schema, in SQL."""
    return f"{quoted(sink.schema)}.{quoted(table)}"
