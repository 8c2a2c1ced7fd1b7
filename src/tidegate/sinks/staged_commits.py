"""The commit phase of the staged protocol. Each task has staged its rows in its own table. One transaction takes the
stages of an epoch into the target, and records the epoch in the ledger. PostgreSQL and MySQL share this code.

Why a commit is atomic with its evidence: rows and ledger row are of one transaction. Why it happens once: the
transaction first locks the row of its owner, then looks for the epoch in the ledger (`Standing`), and only then takes
rows. A driver that was paused anywhere either holds the lock, and the next one waits; or it gets the lock later, and
finds what the next one has recorded. The server ends a transaction that stands still. The transaction is READ
COMMITTED, so that each look is a new one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Generic

from tidegate.core.records import Answer, Committable, Evidence, Outcome
from tidegate.sinks.base import answer_all
from tidegate.sinks.database_access import DatabaseAccess, LedgerT, SessionT
from tidegate.sinks.refusals import row_conflict
from tidegate.sinks.standing import PROVES, Standing, in_words


class _NotAllTaken(Exception):
    """Another number of rows was taken than a stage must have. Rolls the transaction back."""


class StagedCommits(DatabaseAccess[SessionT, LedgerT], Generic[SessionT, LedgerT]):
    """Takes prepared stages into the table of a sink, and finds out which of them were taken."""

    # --- what a database does in its own way ---------------------------------------------------------------

    @property
    @abstractmethod
    def has_key(self) -> bool:
        """True if a row replaces another one with its key."""

    @abstractmethod
    def stage_of(self, committable: Committable) -> str:
        """The name of the stage."""

    @abstractmethod
    def present(self, connection: SessionT, stages: Sequence[str]) -> set[str]:
        """Those of `stages` that exist."""

    @abstractmethod
    def rows_in(self, connection: SessionT, stage: str) -> int:
        """The number of rows in a stage that exists."""

    @abstractmethod
    def take(self, connection: SessionT, stage: str) -> int:
        """Take the rows of a stage into the table, inside the open transaction. Returns how many were inserted."""

    @abstractmethod
    def is_of_a_row(self, error: Exception) -> bool:
        """True if the table refuses a row."""

    def is_worth_another_try(self, error: Exception) -> bool:
        """True if the same transaction can succeed at once, after an error that ended it."""
        return False

    # --- the protocol --------------------------------------------------------------------------------------

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        if not committables:
            return []
        try:
            with self.connected() as connection:
                commit = partial(self._commit, connection, committables)
                try:
                    return self._in_one_look(commit)
                except self.errors as error:
                    if not self.is_worth_another_try(error):
                        raise
                    return self._in_one_look(commit)
        except self.errors as error:
            return self._not_taken(error, committables)

    def commit_straight(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        try:
            with self.connected() as connection:
                return self._in_one_look(partial(self._commit_straight, connection, committables))
        except self.errors as error:
            return self._not_taken(error, committables)

    def evidence(self, committable: Committable) -> Evidence:
        attempt = committable.attempt
        try:
            with self.connected() as connection, self.transaction(connection):
                ledger = self.ledger(connection)
                standing = ledger.standing_of_one(committable)
                if standing is Standing.SAME:
                    ledger.touch(attempt.sink, attempt.epoch)
        except self.errors:
            return Evidence.UNKNOWN
        return PROVES[standing]

    def _in_one_look(self, commit: Callable[[bool], list[Answer]]) -> list[Answer]:
        """What `commit(counts)` answers. `counts`: it counts the stages before it takes them.

        First without: the number of rows that an INSERT has taken says whether a stage had all of its rows. It says
        nothing with a key, where the last row of a key wins, nor where a trigger leaves rows out.
        """
        if not self.has_key:
            with suppress(_NotAllTaken):
                return commit(False)
        return commit(True)

    def _commit(self, connection: SessionT, committables: Sequence[Committable], counts: bool) -> list[Answer]:
        """The one transaction."""
        attempt, ledger = committables[0].attempt, self.ledger(connection)
        with self.transaction(connection):
            ledger.lock(attempt.sink)
            standing = ledger.standing_of(committables)
            if standing is Standing.SAME:
                ledger.touch(attempt.sink, attempt.epoch)
            elif standing is Standing.OPEN:
                lost = self.lost(connection, committables, counts)
                if lost:
                    return lost
                self.take_all(connection, committables, counts)
                self.record(ledger, committables)
        return self._answer(ledger, committables, standing)

    def _commit_straight(self, connection: SessionT, committables: Sequence[Committable], counts: bool) -> list[Answer]:
        with self.transaction(connection):
            lost = self.lost(connection, committables, counts)
            if lost:
                return lost
            self.take_all(connection, committables, counts)
        return answer_all(committables, Outcome.COMMITTED, "")

    def take_all(self, connection: SessionT, committables: Sequence[Committable], counted: bool) -> None:
        """Inside the open transaction, in the order of the tasks: of several rows of one key the last one wins.

        `counted`: the stages were counted before.
        """
        for each in sorted(committables, key=lambda committable: committable.attempt.task):
            if self.take(connection, self.stage_of(each)) != each.rows and not counted:
                raise _NotAllTaken

    def lost(self, connection: SessionT, committables: Sequence[Committable], counts: bool) -> list[Answer]:
        """An answer for each committable if at least one has lost its stage; otherwise an empty list."""
        there = self.present(connection, [self.stage_of(each) for each in committables])
        flaws = [self._flaw(connection, each, there, counts) for each in committables]
        if not any(flaws):
            return []
        waiting = Answer(outcome=Outcome.RETRY, detail="not taken: another stage of this epoch is lost")
        return [Answer(outcome=Outcome.LOST, detail=flaw) if flaw else waiting for flaw in flaws]

    def _flaw(self, connection: SessionT, committable: Committable, there: set[str], counts: bool) -> str | None:
        stage = self.stage_of(committable)
        if stage not in there:
            return f"table {stage} is gone"
        rows = self.rows_in(connection, stage) if counts else committable.rows
        return None if rows == committable.rows else f"table {stage} has {rows} rows instead of {committable.rows}"

    def _answer(self, ledger: LedgerT, committables: Sequence[Committable], standing: Standing) -> list[Answer]:
        if standing is Standing.OPEN:
            return answer_all(committables, Outcome.COMMITTED, "")
        if standing is Standing.SAME:
            return answer_all(committables, Outcome.ALREADY, "the ledger row is there")
        attempt = committables[0].attempt
        found = in_words(standing, attempt.sink, attempt.epoch, ledger.newest_of(attempt.sink))
        return answer_all(committables, Outcome.UNKNOWN, f"{self.server}: {found}")

    def _not_taken(self, error: Exception, committables: Sequence[Committable]) -> list[Answer]:
        """RETRY, for what can be repaired while the epoch waits. Also after a lost answer to COMMIT: the next try
        finds the evidence, or nothing.

        Raises ROW_CONFLICT for a row that the table refuses.
        """
        if self.is_of_a_row(error):
            raise row_conflict(committables[0].attempt, self.table, self.told(error), self.remedy) from None
        return answer_all(committables, Outcome.RETRY, self.found(error))
