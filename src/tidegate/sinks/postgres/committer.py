"""The commit phase of a PostgreSQL sink, on a driver: one transaction takes the stages of an epoch into the table and
records it in the ledger.

Why a commit is atomic with its evidence: rows and ledger row are of one transaction. Why it happens once: the
transaction first locks the row of its owner, then looks for the epoch in the ledger (`Standing`), and only then takes
rows. A driver that was paused anywhere either holds the lock, and the next one waits; or it gets the lock later, and
finds what the next one has recorded. The server ends a transaction that stands still (`IDLE_SECONDS`). READ COMMITTED
makes each look a new one (postgresql.org/docs/current/transaction-iso.html), and `server.py` asks for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import psycopg

from tidegate.core.records import Answer, Committable, Evidence, Outcome
from tidegate.sinks.base import answer_all
from tidegate.sinks.counted_stages import in_one_look, take_all
from tidegate.sinks.postgres.declared import DeclaredPostgresSink, qualified
from tidegate.sinks.postgres.ledger import LEDGER, OWNERS, Ledger
from tidegate.sinks.postgres.merge import take
from tidegate.sinks.postgres.protocol import STAGE, CommitProtocol
from tidegate.sinks.postgres.server import Session, run, transaction
from tidegate.sinks.postgres.stages import present
from tidegate.sinks.postgres.words import is_of_a_row, told
from tidegate.sinks.refusals import row_conflict
from tidegate.sinks.standing import PROVES, Entry, Standing, in_words


@dataclass(frozen=True, slots=True)
class PostgresCommitter:
    """Takes prepared stages into the table of a sink, and finds out which of them were taken."""

    sink: DeclaredPostgresSink

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        if not committables:
            return []
        try:
            with self.sink.server.connected() as connection:
                return self._commit(connection, committables)
        except psycopg.Error as error:
            return self._not_taken(error, committables)

    def commit_straight(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        in_task_order = sorted(committables, key=lambda committable: committable.attempt.task)

        def commit(counts: bool) -> list[Answer]:
            with self.sink.server.connected() as connection, transaction(connection):
                lost = self._lost(connection, committables, counts)
                if not lost:
                    self._take(connection, in_task_order, counts)
                return lost

        try:
            lost = in_one_look(commit, has_key=bool(self.sink.key))
        except psycopg.Error as error:
            return self._not_taken(error, committables)
        return lost or answer_all(committables, Outcome.COMMITTED, "")

    def evidence(self, committable: Committable) -> Evidence:
        attempt = committable.attempt
        try:
            with self.sink.server.connected() as connection, transaction(connection):
                ledger = Ledger(connection, self.sink.schema)
                standing = ledger.standing_of_one(committable)
                if standing is Standing.SAME:
                    ledger.touch(attempt.sink, attempt.epoch)
        except psycopg.Error:
            return Evidence.UNKNOWN
        return PROVES[standing]

    # --- the one transaction -------------------------------------------------------------------------------

    def _commit(self, connection: Session, committables: Sequence[Committable]) -> list[Answer]:
        return in_one_look(partial(self._commit_once, connection, committables), has_key=bool(self.sink.key))

    def _commit_once(self, connection: Session, committables: Sequence[Committable], counts: bool) -> list[Answer]:
        in_task_order = sorted(committables, key=lambda committable: committable.attempt.task)
        attempt, ledger = in_task_order[0].attempt, Ledger(connection, self.sink.schema)
        with transaction(connection):
            ledger.lock(attempt.sink)
            standing = ledger.standing_of(committables)
            if standing is Standing.SAME:
                ledger.touch(attempt.sink, attempt.epoch)
            elif standing is Standing.OPEN:
                lost = self._lost(connection, committables, counts)
                if lost:
                    return lost
                self._take(connection, in_task_order, counts)
                ledger.record(attempt.sink, Entry.of(in_task_order), CommitProtocol.STAGED)
        return self._answer(ledger, committables, standing)

    def _take(self, connection: Session, in_task_order: Sequence[Committable], counted: bool) -> None:
        take_all(lambda each: take(connection, self.sink, _stage_of(each)), in_task_order, counted=counted)

    def _lost(self, connection: Session, committables: Sequence[Committable], counts: bool) -> list[Answer]:
        """An answer for each committable if at least one has lost its stage; otherwise an empty list."""
        there = present(connection, self.sink.schema, [_stage_of(each) for each in committables])
        flaws = [self._flaw(connection, each, there, counts) for each in committables]
        if not any(flaws):
            return []
        waiting = Answer(outcome=Outcome.RETRY, detail="not taken: another stage of this epoch is lost")
        return [Answer(outcome=Outcome.LOST, detail=flaw) if flaw else waiting for flaw in flaws]

    def _flaw(self, connection: Session, committable: Committable, there: set[str], counts: bool) -> str | None:
        stage = _stage_of(committable)
        if stage not in there:
            return f"table {stage} is gone"
        if not counts:
            return None
        found = run(connection, f"SELECT pg_catalog.count(*) FROM {qualified(self.sink, stage)}").fetchone()
        rows = 0 if found is None else found[0]
        return None if rows == committable.rows else f"table {stage} has {rows} rows instead of {committable.rows}"

    def _answer(self, ledger: Ledger, committables: Sequence[Committable], standing: Standing) -> list[Answer]:
        if standing is Standing.OPEN:
            return answer_all(committables, Outcome.COMMITTED, "")
        if standing is Standing.SAME:
            return answer_all(committables, Outcome.ALREADY, "the ledger row is there")
        attempt = committables[0].attempt
        found = in_words(standing, attempt.sink, attempt.epoch, ledger.newest_of(attempt.sink))
        return answer_all(committables, Outcome.UNKNOWN, f"{self.sink.server}: {found}")

    # --- errors --------------------------------------------------------------------------------------------

    def _not_taken(self, error: psycopg.Error, committables: Sequence[Committable]) -> list[Answer]:
        """RETRY, for what can be repaired while the epoch waits. Also after a lost answer to COMMIT: the next try
        finds the evidence, or nothing.

        Raises ROW_CONFLICT for a row that the table refuses.
        """
        if is_of_a_row(error) and error.diag.table_name not in (LEDGER, OWNERS):
            remedy = "Correct the table (its constraints, partitions and triggers)"
            raise row_conflict(committables[0].attempt, self.sink.table, told(error), remedy) from None
        return answer_all(committables, Outcome.RETRY, f"{self.sink.server}: {told(error)}")


def _stage_of(committable: Committable) -> str:
    return committable.handle[STAGE]
