"""The options of a MySQL sink as the program declares them: what its checks, description and commit phase read."""

from __future__ import annotations

from typing import Protocol

from tidegate.sinks.mysql.protocol import MySQLProtocol
from tidegate.sinks.mysql.server import MySQLServer
from tidegate.sinks.mysql.values import MySQLRules


class DeclaredMySQLSink(Protocol):
    """The options of a `MySQLSink`. `rules`: with the description of the table, once it was read."""

    uid: str
    server: MySQLServer
    table: str
    key: tuple[str, ...]
    deleted: str | None
    protocol: MySQLProtocol
    rules: MySQLRules
