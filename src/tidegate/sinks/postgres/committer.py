"""The commit phase of the staged protocol, on a driver. Why it is exact stands in `sinks/staged_commits.py`.

The server ends a transaction that stands still (`IDLE_SECONDS`). READ COMMITTED makes each look a new one
(postgresql.org/docs/current/transaction-iso.html), and `server.py` asks for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import psycopg

from tidegate.core.records import Committable
from tidegate.sinks.postgres.access import PostgresAccess
from tidegate.sinks.postgres.declared import qualified
from tidegate.sinks.postgres.ledger import LEDGER, OWNERS, Ledger
from tidegate.sinks.postgres.merge import take
from tidegate.sinks.postgres.protocol import STAGE, CommitProtocol
from tidegate.sinks.postgres.server import Session, run
from tidegate.sinks.postgres.stages import present
from tidegate.sinks.postgres.words import is_of_a_row
from tidegate.sinks.staged_commits import StagedCommits


@dataclass(frozen=True, slots=True)
class PostgresCommitter(PostgresAccess, StagedCommits[Session, Ledger]):
    """Takes prepared stages into the table of a sink, and finds out which of them were taken."""

    protocol: ClassVar[CommitProtocol] = CommitProtocol.STAGED

    @property
    def has_key(self) -> bool:
        return bool(self.sink.key)

    def stage_of(self, committable: Committable) -> str:
        return committable.handle[STAGE]

    def present(self, connection: Session, stages: Sequence[str]) -> set[str]:
        return present(connection, self.sink.schema, stages)

    def rows_in(self, connection: Session, stage: str) -> int:
        found = run(connection, f"SELECT pg_catalog.count(*) FROM {qualified(self.sink, stage)}").fetchone()
        return 0 if found is None else found[0]

    def take(self, connection: Session, stage: str) -> int:
        return take(connection, self.sink, stage)

    def is_of_a_row(self, error: Exception) -> bool:
        """Not if the server refuses a row of the ledger."""
        if not isinstance(error, psycopg.Error) or not is_of_a_row(error):
            return False
        return error.diag.table_name not in (LEDGER, OWNERS)
