"""The table of a MySQL sink and its ledger, for the commit phase of both protocols."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

from pymysql.err import MySQLError

from tidegate.core.records import Committable
from tidegate.sinks.database_access import DatabaseAccess
from tidegate.sinks.mysql.declared import DeclaredMySQLSink
from tidegate.sinks.mysql.ledger import MySQLLedger
from tidegate.sinks.mysql.protocol import MySQLProtocol
from tidegate.sinks.mysql.server import MySQLServer, MySQLSession, transaction
from tidegate.sinks.mysql.words import told
from tidegate.sinks.standing import Entry


@dataclass(frozen=True, slots=True)
class MySQLAccess(DatabaseAccess[MySQLSession, MySQLLedger]):
    """`sink`: the options of the sink."""

    sink: DeclaredMySQLSink

    errors: ClassVar[type[Exception]] = MySQLError
    remedy: ClassVar[str] = "Correct the table (its unique indexes, foreign keys, partitions and triggers)"
    protocol: ClassVar[MySQLProtocol]
    """What the ledger's rows name."""

    @property
    def table(self) -> str:
        return self.sink.table

    @property
    def server(self) -> MySQLServer:
        return self.sink.server

    def connected(self) -> AbstractContextManager[MySQLSession]:
        return self.sink.server.connected()

    def transaction(self, connection: MySQLSession) -> AbstractContextManager[None]:
        return transaction(connection)

    def ledger(self, connection: MySQLSession) -> MySQLLedger:
        return MySQLLedger(connection)

    def record(self, ledger: MySQLLedger, committables: Sequence[Committable]) -> None:
        ledger.record(committables[0].attempt.sink, Entry.of(committables), self.protocol)

    def told(self, error: Exception) -> str:
        return told(error) if isinstance(error, MySQLError) else str(error)
