"""The commit phase of the staged protocol, on a driver. Why it is exact stands in `sinks/staged_commits.py`.

Rows and ledger row are of one transaction of one engine. The server ends a connection that stands still
(`IDLE_SECONDS`). READ COMMITTED makes each look a new one, and `server.py` asks for it. No statement of the transaction
commits by itself (dev.mysql.com/doc/refman/8.4/en/implicit-commit.html): so nothing is created or dropped here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pymysql.err import MySQLError

from tidegate.core.records import Committable
from tidegate.sinks.mysql.access import MySQLAccess
from tidegate.sinks.mysql.ledger import MySQLLedger
from tidegate.sinks.mysql.merge import take
from tidegate.sinks.mysql.names import quoted
from tidegate.sinks.mysql.protocol import STAGE, MySQLProtocol
from tidegate.sinks.mysql.server import MySQLSession, run
from tidegate.sinks.mysql.stages import present
from tidegate.sinks.mysql.words import DUPLICATE, code_of, is_of_a_row
from tidegate.sinks.staged_commits import StagedCommits


@dataclass(frozen=True, slots=True)
class MySQLCommitter(MySQLAccess, StagedCommits[MySQLSession, MySQLLedger]):
    """Takes prepared stages into the table of a sink, and finds out which of them were taken."""

    protocol: ClassVar[MySQLProtocol] = MySQLProtocol.STAGED

    @property
    def has_key(self) -> bool:
        return bool(self.sink.key)

    def stage_of(self, committable: Committable) -> str:
        return committable.handle[STAGE]

    def present(self, connection: MySQLSession, stages: Sequence[str]) -> set[str]:
        return present(connection, stages)

    def rows_in(self, connection: MySQLSession, stage: str) -> int:
        return run(connection, f"SELECT COUNT(*) FROM {quoted(stage)}")[0][0]

    def take(self, connection: MySQLSession, stage: str) -> int:
        return take(connection, self.sink, stage)

    def is_of_a_row(self, error: Exception) -> bool:
        return isinstance(error, MySQLError) and is_of_a_row(error)

    def is_worth_another_try(self, error: Exception) -> bool:
        """After a duplicate key: with key=, a client may have inserted it between the update and the insert.

        The second try then updates it.
        """
        return self.has_key and isinstance(error, MySQLError) and code_of(error) == DUPLICATE
