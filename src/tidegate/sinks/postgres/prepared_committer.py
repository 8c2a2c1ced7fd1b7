"""The commit phase of the prepared protocol, on a driver: COMMIT PREPARED for each transaction of an epoch. Why it is
exact stands in `sinks/prepared_commits.py`.

COMMIT PREPARED always waits for the server's disk, whatever `synchronous_commit` says
(`RecordTransactionCommitPrepared` of the server), but not for the standbys of a session that does not ask for them. So
the ledger's row behind it is written by a transaction that does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import psycopg

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import Answer, Attempt, Committable, Outcome, SinkIdentity
from tidegate.sinks.base import OpenTransaction
from tidegate.sinks.postgres.access import PostgresAccess
from tidegate.sinks.postgres.ledger import Ledger
from tidegate.sinks.postgres.names import PreparedName
from tidegate.sinks.postgres.prepared import commit_prepared, end_writers, prepared_here, roll_back
from tidegate.sinks.postgres.prepared_transaction import PreparedTransaction
from tidegate.sinks.postgres.protocol import GID, CommitProtocol
from tidegate.sinks.postgres.server import Session, reached
from tidegate.sinks.postgres.words import told
from tidegate.sinks.prepared_commits import PreparedCommits


@dataclass(frozen=True, slots=True)
class PreparedCommitter(PostgresAccess, PreparedCommits[Session, Ledger]):
    """Ends prepared transactions of a sink, and finds out which of them are committed."""

    protocol: ClassVar[CommitProtocol] = CommitProtocol.PREPARED

    def again(self, attempt: Attempt) -> PreparedTransaction:
        return PreparedTransaction.again(self.sink, attempt)

    def fence(self, committable: Committable) -> None:
        """End the writers of this attempt, and what it has prepared: in this order, because they could still prepare.

        A process that was paused before it has connected is not found. It cannot commit either once the attempt has:
        see the module `evidence`.
        """
        name = PreparedName.of(self.sink, committable.attempt)
        with reached(self.sink.server, self.sink.uid) as connection:
            end_writers(connection, name)
            self._roll_back(connection, {str(name), committable.handle[GID]})

    def commit_one(self, connection: Session, committable: Committable) -> Answer:
        ledger, gid = Ledger(connection, self.sink.schema), committable.handle[GID]
        if gid != str(PreparedName.of(self.sink, committable.attempt)):
            return Answer(outcome=Outcome.LOST, detail=f"{gid!r} was prepared for another table")
        try:
            commit_prepared(connection, gid)
        except psycopg.errors.UndefinedObject as error:
            if ledger.is_proved(committable):
                return Answer(outcome=Outcome.ALREADY, detail="the evidence row is there")
            return Answer(outcome=Outcome.LOST, detail=f"{self.sink.server}: {told(error)}, and no evidence of it")
        except psycopg.errors.InsufficientPrivilege as error:
            return Answer(outcome=Outcome.RETRY, detail=f"{told(error)}: {_owned(connection, gid)}")
        except psycopg.Error as error:
            if connection.closed or connection.broken:
                raise
            return Answer(outcome=Outcome.RETRY, detail=f"{self.sink.server}: {told(error)}")
        return Answer(outcome=Outcome.COMMITTED)

    # --- what is open --------------------------------------------------------------------------------------

    def pending(self, identity: SinkIdentity) -> list[str]:
        """The transactions of exactly this identity in this database, for any table and of any generation."""
        with reached(self.sink.server, self.sink.uid) as connection:
            return [each.gid for each in prepared_here(connection) if each.name and each.name.belongs_to(identity)]

    def open_transactions(self, identity: SinkIdentity) -> list[OpenTransaction]:
        """Those of `pending`, and those of other job ids under the same uids: of an older life of the job, which hold
        back vacuum and keep their locks.
        """
        with reached(self.sink.server, self.sink.uid) as connection:
            found = prepared_here(connection)
        return [
            OpenTransaction(each.gid, each.since, each.name.belongs_to(identity))
            for each in found
            if each.name is not None and each.name.has_uids_of(identity)
        ]

    def abort(self, transactions: Sequence[str]) -> None:
        with reached(self.sink.server, self.sink.uid) as connection:
            self._roll_back(connection, {name for name in transactions if PreparedName.parsed(name) is not None})

    def _roll_back(self, connection: Session, gids: Iterable[str]) -> None:
        for gid in sorted(gids):
            try:
                roll_back(connection, gid)
            except psycopg.errors.InsufficientPrivilege as error:
                raise TidegateError(
                    Code.SINK_UNUSABLE,
                    expected="a prepared transaction of this user, who alone may end it, or a superuser",
                    found=told(error),
                    where=f"sink {self.sink.uid!r}: {self.sink.server}",
                    next_step=f"{_owned(connection, gid)}, then start again",
                ) from None


def _owned(connection: Session, gid: str) -> str:
    """Who can end a transaction that this user cannot end."""
    owner = next((each.owner for each in prepared_here(connection) if each.gid == gid), "another user")
    return f"give the sink the user {owner!r}, or a superuser, until {gid!r} is ended"
