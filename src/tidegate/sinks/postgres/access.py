"""The table of a PostgreSQL sink and its ledger, for the commit phase of both protocols."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

import psycopg

from tidegate.core.records import Committable
from tidegate.sinks.database_access import DatabaseAccess
from tidegate.sinks.postgres.declared import DeclaredPostgresSink
from tidegate.sinks.postgres.ledger import Ledger
from tidegate.sinks.postgres.protocol import CommitProtocol
from tidegate.sinks.postgres.server import Server, Session, transaction
from tidegate.sinks.postgres.words import told
from tidegate.sinks.standing import Entry


@dataclass(frozen=True, slots=True)
class PostgresAccess(DatabaseAccess[Session, Ledger]):
    """`sink`: the options of the sink."""

    sink: DeclaredPostgresSink

    errors: ClassVar[type[Exception]] = psycopg.Error
    remedy: ClassVar[str] = "Correct the table (its constraints, partitions and triggers)"
    protocol: ClassVar[CommitProtocol]
    """What the ledger's rows name."""

    @property
    def table(self) -> str:
        return self.sink.table

    @property
    def server(self) -> Server:
        return self.sink.server

    def connected(self) -> AbstractContextManager[Session]:
        return self.sink.server.connected()

    def transaction(self, connection: Session) -> AbstractContextManager[None]:
        return transaction(connection)

    def ledger(self, connection: Session) -> Ledger:
        return Ledger(connection, self.sink.schema)

    def record(self, ledger: Ledger, committables: Sequence[Committable]) -> None:
        ledger.record(committables[0].attempt.sink, Entry.of(committables), self.protocol)

    def told(self, error: Exception) -> str:
        return told(error) if isinstance(error, psycopg.Error) else str(error)
