"""The commit phase of the prepared protocol, on a driver: COMMIT PREPARED for each transaction of an epoch.

Why a commit is atomic with its evidence: the rows and the evidence row of an attempt are of one transaction, which was
prepared as a whole. Why it happens once: the key of the evidence row has the attempt. What the server says of an
identifier that it does not know proves nothing, since an administrator may have rolled the transaction back: the
evidence row alone decides.

Why no other timeline gets in between: before the first COMMIT PREPARED a transaction of its own locks the row of the
owner, and claims the epoch in the ledger for exactly these transactions. It is in the server's log before them. Whoever
comes with other transactions of the epoch, or with an older epoch, finds the claim and commits nothing.

Why what was reported survives: COMMIT PREPARED always waits for the server's disk, whatever `synchronous_commit` says
(`RecordTransactionCommitPrepared` of the server), but not for the standbys of a session that does not ask for them. So
the ledger's row is written once more behind it, as in the other protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import psycopg
import pyarrow as pa

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import Answer, Committable, Evidence, Outcome, SinkIdentity
from tidegate.sinks.base import OpenTransaction, answer_all
from tidegate.sinks.postgres.declared import DeclaredPostgresSink
from tidegate.sinks.postgres.ledger import Ledger
from tidegate.sinks.postgres.names import PreparedName
from tidegate.sinks.postgres.prepared import commit_prepared, end_writers, prepared_here, roll_back
from tidegate.sinks.postgres.prepared_transaction import PreparedTransaction
from tidegate.sinks.postgres.protocol import GID, CommitProtocol
from tidegate.sinks.postgres.server import Session, reached, transaction
from tidegate.sinks.postgres.words import told
from tidegate.sinks.refusals import row_conflict
from tidegate.sinks.rows import RowRefused
from tidegate.sinks.standing import PROVES, Entry, Standing, in_words


@dataclass(frozen=True, slots=True)
class PreparedCommitter:
    """Ends prepared transactions of a sink, and finds out which of them are committed."""

    sink: DeclaredPostgresSink

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        if not committables:
            return []
        try:
            with self.sink.server.connected() as connection:
                return self._commit(connection, committables)
        except psycopg.Error as error:
            return answer_all(committables, Outcome.RETRY, f"{self.sink.server}: {told(error)}")

    def commit_straight(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        """Without a claim: so the rows in `_tidegate_evidence` prove nothing to a later start, and are removed when the
        epoch is finished.
        """
        try:
            with self.sink.server.connected() as connection:
                return self._commit_each(connection, committables)
        except psycopg.Error as error:
            return answer_all(committables, Outcome.RETRY, f"{self.sink.server}: {told(error)}")

    def evidence(self, committable: Committable) -> Evidence:
        attempt = committable.attempt
        try:
            with self.sink.server.connected() as connection, transaction(connection):
                ledger = Ledger(connection, self.sink.schema)
                standing = ledger.standing_of_one(committable)
                if ledger.is_proved(committable):
                    ledger.touch(attempt.sink, attempt.epoch)
                    return Evidence.PRESENT
        except psycopg.Error:
            return Evidence.UNKNOWN
        # A claim alone is no proof.
        return Evidence.ABSENT if standing is Standing.SAME else PROVES[standing]

    def fence(self, committable: Committable) -> None:
        """End the writers of this attempt, and what it has prepared: in this order, because they could still prepare.

        A process that was paused before it has connected is not found. It cannot commit either once the attempt has:
        see the module `evidence`.
        """
        name = PreparedName.of(self.sink, committable.attempt)
        with reached(self.sink.server, self.sink.uid) as connection:
            end_writers(connection, name)
            self._roll_back(connection, {str(name), committable.handle[GID]})

    def redo(self, committable: Committable, batches: Iterable[pa.RecordBatch]) -> Answer:
        """Fence, look at the evidence, write, under the same name: in this order."""
        try:
            self.fence(committable)
            evidence = self.evidence(committable)
            if evidence is Evidence.PRESENT:
                return Answer(outcome=Outcome.ALREADY, detail="the evidence appeared while the transaction was fenced")
            if evidence is not Evidence.ABSENT:
                return Answer(outcome=Outcome.UNKNOWN, detail=f"the evidence is {evidence.value}")
            return self._written_again(committable, batches)
        except RowRefused as refused:
            remedy = "Correct the table (its constraints, partitions and triggers)"
            raise row_conflict(committable.attempt, self.sink.table, refused.found, remedy) from None
        except psycopg.Error as error:
            return Answer(outcome=Outcome.RETRY, detail=f"{self.sink.server}: {told(error)}")
        except TidegateError as error:
            if error.catalogue_entry is not Code.SINK_UNUSABLE:
                raise
            return Answer(outcome=Outcome.RETRY, detail=error.found)

    # --- the steps -----------------------------------------------------------------------------------------

    def _commit(self, connection: Session, committables: Sequence[Committable]) -> list[Answer]:
        attempt, ledger = committables[0].attempt, Ledger(connection, self.sink.schema)
        with transaction(connection):
            ledger.lock(attempt.sink)
            standing = ledger.standing_of(committables)
            if standing is Standing.OPEN:
                ledger.record(attempt.sink, Entry.of(committables), CommitProtocol.PREPARED)
        if standing is Standing.OTHER or standing is Standing.LATER:
            found = in_words(standing, attempt.sink, attempt.epoch, ledger.newest_of(attempt.sink))
            return answer_all(committables, Outcome.UNKNOWN, f"{self.sink.server}: {found}")
        answers = self._commit_each(connection, committables)
        with transaction(connection):
            ledger.touch(attempt.sink, attempt.epoch)
        return answers

    def _commit_each(self, connection: Session, committables: Sequence[Committable]) -> list[Answer]:
        return [self._commit_one(connection, each) for each in committables]

    def _commit_one(self, connection: Session, committable: Committable) -> Answer:
        """Raises psycopg.Error if the connection is gone: what has become of the transaction is then not known."""
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

    def _written_again(self, committable: Committable, batches: Iterable[pa.RecordBatch]) -> Answer:
        written = PreparedTransaction.again(self.sink, committable.attempt)
        try:
            for batch in batches:
                written.write(batch)
            again = written.pre_commit()
        except BaseException:
            written.abort()
            raise
        if again is None or again.digest != committable.digest:
            written.abort()
            return Answer(outcome=Outcome.UNKNOWN, detail="the journal gave another number of rows")
        with self.sink.server.connected() as connection:
            ledger = Ledger(connection, self.sink.schema)
            with transaction(connection):
                ledger.lock(again.attempt.sink)
                standing = ledger.standing_of_one(again)
            if standing is not Standing.SAME:
                return Answer(outcome=Outcome.RETRY, detail="not committed: the epoch is not claimed yet")
            answer = self._commit_one(connection, again)
            with transaction(connection):
                ledger.touch(again.attempt.sink, again.attempt.epoch)
        return answer

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
