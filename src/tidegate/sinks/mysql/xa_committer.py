"""The commit phase of the protocol XA, on a driver: XA COMMIT for each branch of an epoch.

Why a commit is atomic with its evidence: the rows and the evidence row of an attempt are of one branch, which was
prepared as a whole. Why it happens once: the key of the evidence row has the attempt. What the server says of an
identifier that it does not know proves nothing, since an administrator may have rolled the branch back: the evidence
row alone decides.

Why no other timeline gets in between: before the first XA COMMIT a transaction of its own locks the row of the owner,
and claims the epoch in the ledger for exactly these branches. Whoever comes with other branches of the epoch, or with
an older epoch, finds the claim and commits nothing.

Why what was reported survives: a commit that another process has begun may be visible before it is on disk. So the
ledger's row is changed once more behind it, as in the other protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pymysql.err import MySQLError

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import Answer, Committable, Evidence, Outcome, SinkIdentity
from tidegate.sinks.base import answer_all
from tidegate.sinks.mysql.branches import NOT_ALLOWED_TO_LIST, commit_branch, prepared_here, roll_back
from tidegate.sinks.mysql.declared import DeclaredMySQLSink
from tidegate.sinks.mysql.ledger import MySQLLedger
from tidegate.sinks.mysql.protocol import GID, MySQLProtocol
from tidegate.sinks.mysql.server import MySQLSession, reached, transaction
from tidegate.sinks.mysql.words import code_of, told
from tidegate.sinks.mysql.xa_transaction import XaTransaction
from tidegate.sinks.mysql.xids import Xid
from tidegate.sinks.refusals import row_conflict
from tidegate.sinks.rows import RowRefused
from tidegate.sinks.standing import PROVES, Entry, Standing, in_words


@dataclass(frozen=True, slots=True)
class XaCommitter:
    """Ends prepared branches of a sink, and finds out which of them are committed."""

    sink: DeclaredMySQLSink

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        if not committables:
            return []
        try:
            with self.sink.server.connected() as connection:
                return self._commit(connection, committables)
        except MySQLError as error:
            return answer_all(committables, Outcome.RETRY, f"{self.sink.server}: {told(error)}")

    def commit_straight(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        """Without a claim: so the rows in `_tidegate_evidence` prove nothing to a later start, and are removed when the
        epoch is finished.
        """
        try:
            with self.sink.server.connected() as connection:
                return self._commit_each(connection, committables)
        except MySQLError as error:
            return answer_all(committables, Outcome.RETRY, f"{self.sink.server}: {told(error)}")

    def evidence(self, committable: Committable) -> Evidence:
        attempt = committable.attempt
        try:
            with self.sink.server.connected() as connection, transaction(connection):
                ledger = MySQLLedger(connection)
                standing = ledger.standing_of_one(committable)
                if ledger.is_proved(committable):
                    ledger.touch(attempt.sink, attempt.epoch)
                    return Evidence.PRESENT
        except MySQLError:
            return Evidence.UNKNOWN
        # A claim alone is no proof.
        return Evidence.ABSENT if standing is Standing.SAME else PROVES[standing]

    def fence(self, committable: Committable) -> None:
        """Roll back what this attempt has prepared.

        A process that was paused before it has prepared is not ended by that. It cannot commit either once the attempt
        has: see the module `evidence`.
        """
        with reached(self.sink.server, self.sink.uid) as connection:
            roll_back(connection, Xid.of(self.sink, committable.attempt))

    def redo(self, committable: Committable, batches: Iterable[pa.RecordBatch]) -> Answer:
        """Fence, look at the evidence, write, under the same name: in this order."""
        try:
            self.fence(committable)
            evidence = self.evidence(committable)
            if evidence is Evidence.PRESENT:
                return Answer(outcome=Outcome.ALREADY, detail="the evidence appeared while the branch was fenced")
            if evidence is not Evidence.ABSENT:
                return Answer(outcome=Outcome.UNKNOWN, detail=f"the evidence is {evidence.value}")
            return self._written_again(committable, batches)
        except RowRefused as refused:
            remedy = "Correct the table (its unique indexes, foreign keys, partitions and triggers)"
            raise row_conflict(committable.attempt, self.sink.table, refused.found, remedy) from None
        except MySQLError as error:
            return Answer(outcome=Outcome.RETRY, detail=f"{self.sink.server}: {told(error)}")
        except TidegateError as error:
            if error.catalogue_entry is not Code.SINK_UNUSABLE:
                raise
            return Answer(outcome=Outcome.RETRY, detail=error.found)

    # --- the steps -----------------------------------------------------------------------------------------

    def _commit(self, connection: MySQLSession, committables: Sequence[Committable]) -> list[Answer]:
        attempt, ledger = committables[0].attempt, MySQLLedger(connection)
        with transaction(connection):
            ledger.lock(attempt.sink)
            standing = ledger.standing_of(committables)
            if standing is Standing.OPEN:
                ledger.record(attempt.sink, Entry.of(committables), MySQLProtocol.XA)
        if standing is Standing.OTHER or standing is Standing.LATER:
            found = in_words(standing, attempt.sink, attempt.epoch, ledger.newest_of(attempt.sink))
            return answer_all(committables, Outcome.UNKNOWN, f"{self.sink.server}: {found}")
        answers = self._commit_each(connection, committables)
        with transaction(connection):
            ledger.touch(attempt.sink, attempt.epoch)
        return answers

    def _commit_each(self, connection: MySQLSession, committables: Sequence[Committable]) -> list[Answer]:
        return [self._commit_one(connection, each) for each in committables]

    def _commit_one(self, connection: MySQLSession, committable: Committable) -> Answer:
        """Raises MySQLError if the connection is gone: what has become of the branch is then not known."""
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

    def _written_again(self, committable: Committable, batches: Iterable[pa.RecordBatch]) -> Answer:
        written = XaTransaction.again(self.sink, committable.attempt)
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
            ledger = MySQLLedger(connection)
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
