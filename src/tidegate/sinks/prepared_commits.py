"""The commit phase of the prepared protocols. Each task has prepared a transaction in the database. PostgreSQL's
prepared transactions and XA share this code.

Why a commit is atomic with its evidence: the rows and the evidence row of an attempt are of one transaction, which was
prepared as a whole. Why it happens once: the key of the evidence row has the attempt. What the server says of an
identifier that it does not know proves nothing, since an administrator may have rolled the transaction back: the
evidence row alone decides.

Why no other timeline gets in between: before the first commit a transaction of its own locks the row of the owner, and
claims the epoch in the ledger for exactly these transactions. It is in the server's log before them. A driver with
other transactions of the epoch, or with an older epoch, finds the claim and commits nothing.

Why what was reported survives: a commit that another process has begun may be visible before it is on the disk, or on
the standbys that count. So the ledger's row is written once more behind it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Generic

import pyarrow as pa

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import Answer, Attempt, Committable, Evidence, Outcome
from tidegate.sinks.base import Transaction, answer_all
from tidegate.sinks.database_access import DatabaseAccess, LedgerT, SessionT
from tidegate.sinks.refusals import row_conflict
from tidegate.sinks.rows import RowRefused
from tidegate.sinks.standing import PROVES, Standing, in_words


class PreparedCommits(DatabaseAccess[SessionT, LedgerT], Generic[SessionT, LedgerT]):
    """Ends the prepared transactions of a sink, and finds out which of them are committed."""

    # --- what a database does in its own way ---------------------------------------------------------------

    @abstractmethod
    def commit_one(self, connection: SessionT, committable: Committable) -> Answer:
        """Commit one prepared transaction. LOST only if its evidence row is absent, too.

        Raises `errors` if the connection is gone: what has become of the transaction is then not known.
        """

    @abstractmethod
    def fence(self, committable: Committable) -> None:
        """Roll back what this attempt has prepared, and end its writers where the database can."""

    @abstractmethod
    def again(self, attempt: Attempt) -> Transaction:
        """The transaction that writes the rows of a journal under the attempt's own name."""

    # --- the protocol --------------------------------------------------------------------------------------

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        if not committables:
            return []
        try:
            with self.connected() as connection:
                return self._commit(connection, committables)
        except self.errors as error:
            return answer_all(committables, Outcome.RETRY, self.found(error))

    def commit_straight(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        """Without a claim: so the rows in `_tidegate_evidence` prove nothing to a later start, and are removed when the
        epoch is finished.
        """
        try:
            with self.connected() as connection:
                return self._commit_each(connection, committables)
        except self.errors as error:
            return answer_all(committables, Outcome.RETRY, self.found(error))

    def evidence(self, committable: Committable) -> Evidence:
        attempt = committable.attempt
        try:
            with self.connected() as connection, self.transaction(connection):
                ledger = self.ledger(connection)
                standing = ledger.standing_of_one(committable)
                if ledger.is_proved(committable):
                    ledger.touch(attempt.sink, attempt.epoch)
                    return Evidence.PRESENT
        except self.errors:
            return Evidence.UNKNOWN
        # A claim alone is no proof.
        return Evidence.ABSENT if standing is Standing.SAME else PROVES[standing]

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
            raise row_conflict(committable.attempt, self.table, refused.found, self.remedy) from None
        except self.errors as error:
            return Answer(outcome=Outcome.RETRY, detail=self.found(error))
        except TidegateError as error:
            if error.catalogue_entry is not Code.SINK_UNUSABLE:
                raise
            return Answer(outcome=Outcome.RETRY, detail=error.found)

    def _commit(self, connection: SessionT, committables: Sequence[Committable]) -> list[Answer]:
        attempt, ledger = committables[0].attempt, self.ledger(connection)
        with self.transaction(connection):
            ledger.lock(attempt.sink)
            standing = ledger.standing_of(committables)
            if standing is Standing.OPEN:
                self.record(ledger, committables)
        if standing is Standing.OTHER or standing is Standing.LATER:
            found = in_words(standing, attempt.sink, attempt.epoch, ledger.newest_of(attempt.sink))
            return answer_all(committables, Outcome.UNKNOWN, f"{self.server}: {found}")
        answers = self._commit_each(connection, committables)
        with self.transaction(connection):
            ledger.touch(attempt.sink, attempt.epoch)
        return answers

    def _commit_each(self, connection: SessionT, committables: Sequence[Committable]) -> list[Answer]:
        return [self.commit_one(connection, each) for each in committables]

    def _written_again(self, committable: Committable, batches: Iterable[pa.RecordBatch]) -> Answer:
        written = self.again(committable.attempt)
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
        with self.connected() as connection:
            ledger = self.ledger(connection)
            with self.transaction(connection):
                ledger.lock(again.attempt.sink)
                standing = ledger.standing_of_one(again)
            if standing is not Standing.SAME:
                return Answer(outcome=Outcome.RETRY, detail="not committed: the epoch is not claimed yet")
            answer = self.commit_one(connection, again)
            with self.transaction(connection):
                ledger.touch(again.attempt.sink, again.attempt.epoch)
        return answer
