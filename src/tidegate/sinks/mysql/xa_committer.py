"""The commit phase of the protocol XA, on a driver: XA COMMIT for each branch of an epoch. Why it is exact stands in
`sinks/prepared_commits.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pymysql.err import MySQLError

from tidegate.core.records import Answer, Attempt, Committable, Outcome, SinkIdentity
from tidegate.sinks.mysql.access import MySQLAccess
from tidegate.sinks.mysql.branches import NOT_ALLOWED_TO_LIST, commit_branch, prepared_here, roll_back
from tidegate.sinks.mysql.ledger import MySQLLedger
from tidegate.sinks.mysql.protocol import GID, MySQLProtocol
from tidegate.sinks.mysql.server import MySQLSession, reached
from tidegate.sinks.mysql.words import code_of, told
from tidegate.sinks.mysql.xa_transaction import XaTransaction
from tidegate.sinks.mysql.xids import Xid
from tidegate.sinks.prepared_commits import PreparedCommits


@dataclass(frozen=True, slots=True)
class XaCommitter(MySQLAccess, PreparedCommits[MySQLSession, MySQLLedger]):
    """Ends prepared branches of a sink, and finds out which of them are committed."""

    protocol: ClassVar[MySQLProtocol] = MySQLProtocol.XA

    def again(self, attempt: Attempt) -> XaTransaction:
        return XaTransaction.again(self.sink, attempt)

    def fence(self, committable: Committable) -> None:
        """Roll back what this attempt has prepared.

        A process that was paused before it has prepared is not ended by that. It cannot commit either once the attempt
        has: see the module `evidence`.
        """
        with reached(self.sink.server, self.sink.uid) as connection:
            roll_back(connection, Xid.of(self.sink, committable.attempt))

    def commit_one(self, connection: MySQLSession, committable: Committable) -> Answer:
        xid = Xid.of(self.sink, committable.attempt)
        if committable.handle[GID] != str(xid):
            found = f"{committable.handle[GID]!r} was prepared for another table"
            return Answer(outcome=Outcome.LOST, detail=found)
        try:
            if commit_branch(connection, xid):
                return Answer(outcome=Outcome.COMMITTED)
        except MySQLError as error:
            if not connection.open:
                raise
            return Answer(outcome=Outcome.RETRY, detail=f"{self.sink.server}: {told(error)}")
        if MySQLLedger(connection).is_proved(committable):
            return Answer(outcome=Outcome.ALREADY, detail="the evidence row is there")
        return Answer(outcome=Outcome.LOST, detail=f"{self.sink.server}: no branch {xid}, and no evidence of it")

    # --- what is open --------------------------------------------------------------------------------------

    def pending(self, identity: SinkIdentity) -> list[str]:
        """The branches of exactly this identity, for any table and of any generation.

        None for a user of staged rows who may not list branches: a start by XA refuses such a user.
        """
        with reached(self.sink.server, self.sink.uid) as connection:
            try:
                found = prepared_here(connection)
            except MySQLError as error:
                if self.sink.protocol is MySQLProtocol.STAGED and code_of(error) in NOT_ALLOWED_TO_LIST:
                    return []
                raise
        return sorted(str(each) for each in found if each.belongs_to(identity))

    def abort(self, transactions: Sequence[str]) -> None:
        with reached(self.sink.server, self.sink.uid) as connection:
            for name in transactions:
                xid = Xid.parsed_text(name)
                if xid is not None:
                    roll_back(connection, xid)
