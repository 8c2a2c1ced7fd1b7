"""What Flink's `TwoPhaseCommitSinkFunction` demands of a sink, one test each."""

from __future__ import annotations

from tidegate.core.records import Outcome
from tidegate.testing.contract_parts import (
    attempt_of,
    begun,
    committed,
    rows_from,
)
from tidegate.testing.contract_tools import ContractTools


class FlinkContract(ContractTools):
    """The five demands of Flink's contract."""

    def test_the_target_has_transactions_or_simulates_them(self) -> None:
        """Several transactions of several tasks are open side by side, and all of an epoch's rows arrive."""
        sink = self.opened()
        transactions = [begun(sink, attempt_of(task=task)) for task in range(3)]
        for turn in range(2):
            for task, transaction in enumerate(transactions):
                transaction.write(rows_from(task * 10 + turn, 1))
        kept = [[rows_from(task * 10, 1), rows_from(task * 10 + 1, 1)] for task in range(3)]
        committables = [self.reported(each, rows) for each, rows in zip(transactions, kept, strict=True)]
        self.all_answer(sink.commit(committables), Outcome.COMMITTED)
        self.target_has(*(batch for rows in kept for batch in rows))

    def test_a_transaction_is_open_and_writable_for_the_whole_interval(self) -> None:
        """While an older epoch is committed, a newer epoch accepts rows, before the commit and after it."""
        sink = self.opened()
        older = self.prepared(sink, attempt_of(epoch=1), rows_from(0, 2))
        newer = begun(sink, attempt_of(epoch=2))
        newer.write(rows_from(10, 2))
        self.all_answer(sink.commit([older]), Outcome.COMMITTED)
        newer.write(rows_from(20, 2))
        committable = self.reported(newer, [rows_from(10, 2), rows_from(20, 2)])
        self.all_answer(sink.commit([committable]), Outcome.COMMITTED)
        self.target_has(rows_from(0, 2), rows_from(10, 2), rows_from(20, 2))

    def test_nothing_is_visible_before_commit(self) -> None:
        self.skip_if_rows_are_visible_inside()
        sink = self.opened()
        transaction = begun(sink, attempt_of())
        transaction.write(rows_from(0, 3))
        self.target_has()
        committable = self.reported(transaction, [rows_from(0, 3)])
        self.target_has()
        self.all_answer(sink.commit([committable]), Outcome.COMMITTED)
        self.target_has(rows_from(0, 3))

    def test_a_prepared_transaction_outlives_the_process_that_prepared_it(self) -> None:
        """A process prepares a transaction and is killed with SIGKILL; this process commits it."""
        sink = self.opened()
        committable = self.prepared_by_a_killed_process(attempt_of(), rows_from(0, 3))
        self.all_answer(sink.commit([committable]), Outcome.COMMITTED)
        self.target_has(rows_from(0, 3))

    def test_commit_is_idempotent(self) -> None:
        """The second commit comes from another sink object, as after a crash."""
        first = self.opened()
        committables = [self.prepared(first, attempt_of(task=task), rows_from(task * 10, 2)) for task in range(2)]
        self.all_answer(first.commit(committables), Outcome.COMMITTED)
        self.all_taken(committed(self.opened(), committables))
        self.target_has(rows_from(0, 2), rows_from(10, 2))
