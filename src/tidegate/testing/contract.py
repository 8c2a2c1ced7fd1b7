"""The contract of a two-phase sink as a suite of tests. Needs pytest.

    class TestMySink(SinkContract):
        def make_sink(self) -> TwoPhaseSink:
            return MySink("numbers", self.folder / "target")

        def read_target(self) -> list[Row]:
            return [{"id": ..., "word": ...} for ... in ...]

There is one test for each requirement of Flink's `TwoPhaseCommitSinkFunction`: the external system has transactions or
simulates them; a transaction is open and writable for the whole interval; it is not visible before commit; it can be
recovered after the process has died; commit is idempotent. Further tests cover the additional requirements of
tidegate's recovery.
"""

from __future__ import annotations

import pickle

import msgspec
import pyarrow as pa
import pytest

from tidegate.core.levels import Level
from tidegate.core.records import Committable, Evidence, Outcome, Position, epoch_digest
from tidegate.sinks.rows import RowRefused
from tidegate.testing.contract_flink import FlinkContract
from tidegate.testing.contract_parts import (
    DIE_NOWHERE,
    IDENTITY,
    SCHEMA,
    ContractBroken,
    Row,
    attempt_of,
    begun,
    committed,
    demand,
    odd_rows,
    rows_from,
)
from tidegate.testing.contract_timelines import TimelineContract
from tidegate.testing.contract_tools import TAKEN

__all__ = ["IDENTITY", "SCHEMA", "ContractBroken", "Row", "SinkContract", "attempt_of", "rows_from"]


class SinkContract(FlinkContract, TimelineContract):
    """The tests that every two-phase sink must pass.

    Inherit them in a test class named `Test...` that defines `make_sink` and `read_target`.
    """

    def test_commit_takes_the_tasks_in_any_order(self) -> None:
        sink = self.opened()
        tasks = [self.prepared(sink, attempt_of(task=task), rows_from(task * 10, 2)) for task in range(3)]
        self.all_answer(sink.commit([tasks[2], tasks[0], tasks[1]]), Outcome.COMMITTED)
        self.all_taken(committed(sink, [tasks[1], tasks[2], tasks[0]]))
        self.target_has(rows_from(0, 2), rows_from(10, 2), rows_from(20, 2))

    def test_two_finishers_at_once_commit_once(self) -> None:
        """Two processes commit the same epoch at the same moment.

        Its rows become visible once. RETRY is tried again.
        """
        self.skip_in_one_process()
        sink = self.opened()
        committables = [self.prepared(sink, attempt_of(task=task), rows_from(task * 10, 50)) for task in range(2)]
        answers = self.committed_by_two_processes(committables)
        demand(
            {answer.outcome for answer in answers} <= {Outcome.COMMITTED, Outcome.ALREADY},
            f"both finishers end with COMMITTED or ALREADY, not {answers}",
        )
        self.target_has(rows_from(0, 50), rows_from(10, 50))

    def test_evidence_is_absent_before_commit_and_present_after_it(self) -> None:
        self.skip_without_evidence()
        sink = self.opened()
        committables = [self.prepared(sink, attempt_of(task=task), rows_from(task * 10, 2)) for task in range(2)]
        for committable in committables:
            demand(sink.evidence(committable) is Evidence.ABSENT, "evidence is ABSENT before commit")
        sink.commit(committables)
        for committable in committables:
            demand(self.opened().evidence(committable) is Evidence.PRESENT, "evidence is PRESENT after commit")

    def test_an_aborted_transaction_leaves_nothing_visible(self) -> None:
        """The transaction is aborted half-written; the next attempt of the same task is not affected."""
        self.skip_if_rows_are_visible_inside()
        sink = self.opened()
        failed = begun(sink, attempt_of(task_attempt=0))
        failed.write(rows_from(10, 2))
        failed.abort()
        self.target_has()
        again = self.prepared(sink, attempt_of(task_attempt=1), rows_from(0, 2))
        self.all_answer(sink.commit([again]), Outcome.COMMITTED)
        self.target_has(rows_from(0, 2))

    def test_clean_up_comes_twice_and_spares_what_is_not_finished(self) -> None:
        sink = self.opened()
        finished = self.prepared(sink, attempt_of(epoch=1), rows_from(0, 2))
        prepared = self.prepared(sink, attempt_of(epoch=2), rows_from(10, 2))
        sink.commit([finished])
        sink.clean(IDENTITY, 1)
        sink.clean(IDENTITY, 1)
        self.all_answer(sink.commit([prepared]), Outcome.COMMITTED)
        self.target_has(rows_from(0, 2), rows_from(10, 2))

    def test_a_commit_after_clean_up_repeats_nothing(self) -> None:
        """A stalled finisher commits again: the answer is committed, or UNKNOWN if the evidence is gone."""
        sink = self.opened()
        committable = self.prepared(sink, attempt_of(epoch=1), rows_from(0, 2))
        sink.commit([committable])
        sink.clean(IDENTITY, 1)
        answers = committed(sink, [committable])
        demand(
            {answer.outcome for answer in answers} <= {*TAKEN, Outcome.UNKNOWN},
            f"a commit after clean-up is COMMITTED, ALREADY or UNKNOWN, not {answers}",
        )
        self.target_has(rows_from(0, 2))

    def test_discarding_undecided_epochs_spares_the_decided(self) -> None:
        sink = self.opened()
        decided = self.prepared(sink, attempt_of(epoch=1), rows_from(0, 2))
        self.prepared(sink, attempt_of(epoch=2), rows_from(10, 2))
        sink.discard(IDENTITY, 2)
        sink.discard(IDENTITY, 2)
        self.all_answer(sink.commit([decided]), Outcome.COMMITTED)
        self.target_has_decided(rows_from(0, 2))

    def test_a_transaction_without_rows_is_none(self) -> None:
        sink = self.opened()
        demand(begun(sink, attempt_of()).pre_commit() is None, "pre_commit without rows returns None")
        demand(not list(sink.commit([])), "a commit of nothing answers nothing")
        self.target_has()

    def test_a_retried_task_does_not_see_its_predecessor(self) -> None:
        """The first attempt prepared and was killed: it blocks nothing, and none of its rows become visible."""
        self.skip_if_rows_are_visible_inside()
        sink = self.opened()
        self.prepared_by_a_killed_process(attempt_of(task_attempt=0), rows_from(10, 2))
        retried = self.prepared(sink, attempt_of(task_attempt=1), rows_from(0, 2))
        self.all_answer(sink.commit([retried]), Outcome.COMMITTED)
        self.target_has(rows_from(0, 2))

    def test_the_position_is_the_newest_evidence(self) -> None:
        sink = self.opened()
        if not sink.remembers:
            pytest.skip("this target keeps no evidence over a restart")
        demand(sink.position(IDENTITY) is None, "there is no position before the first commit")
        committables: list[Committable] = []
        for epoch in range(9, 12):
            committables = [self.prepared(sink, attempt_of(epoch=epoch), rows_from(epoch * 10, 2))]
            sink.commit(committables)
        newest = Position(job_id=IDENTITY.job_id, generation=1, epoch=11, digest=epoch_digest(committables))
        found = self.opened().position(IDENTITY)
        demand(found == newest, f"the position is {newest}, not {found}")
        other = msgspec.structs.replace(IDENTITY, sink="another")
        demand(sink.position(other) is None, "another sink's evidence is no position of this one")

    def test_a_commit_that_is_killed_anywhere_is_finished_by_the_next(self) -> None:
        """A process commits and is killed (SIGKILL) before its first external call, its second, and so on."""
        self.skip_in_one_process()
        sink = self.opened()
        arrived: list[pa.RecordBatch] = []
        with self.finishers() as commit_and_die:
            epoch, places = 1, [DIE_NOWHERE]
            while places:
                batches = [rows_from(epoch * 10 + task, 2) for task in range(2)]
                committables = [
                    self.prepared(sink, attempt_of(epoch=epoch, task=task), batch) for task, batch in enumerate(batches)
                ]
                place = places.pop()
                calls = commit_and_die(committables, place)
                if place == DIE_NOWHERE:
                    demand(calls > 0, "a commit reaches beyond its process by a call that the suite knows")
                    places = [*range(0, calls, 1 + (calls - 1) // self.kills_at_most)]
                arrived += batches
                answers = committed(self.opened(), committables)
                demand(
                    {answer.outcome for answer in answers} <= TAKEN,
                    f"after a kill before call {place} the next commit ends with COMMITTED or ALREADY, not {answers}",
                )
                self.target_has(*arrived)
                epoch += 1

    def test_aborting_what_is_open_deletes_no_journal(self) -> None:
        """A decided transaction is aborted from a driver, twice: its rows still become visible."""
        sink = self.opened()
        committables = [self.prepared(sink, attempt_of(task=task), rows_from(task * 10, 2)) for task in range(2)]
        for _ in range(2):
            sink.abort(sink.pending(IDENTITY))
        for committable, answer in zip(committables, committed(sink, committables), strict=True):
            demand(
                answer.outcome in TAKEN or self.redone(sink, committable, answer),
                f"an aborted transaction can still be committed or written again, but: {answer}",
            )
        self.target_has(rows_from(0, 2), rows_from(10, 2))

    def test_what_is_lost_is_never_taken_for_committed(self) -> None:
        """Two transactions are committed; one of the two was prepared in a target that no longer exists.

        The sink does not answer that the lost transaction is committed, and has no evidence of it.
        """
        with self.elsewhere():
            lost = self.prepared(self.opened(), attempt_of(task=1), rows_from(10, 2))
        sink = self.opened()
        kept = self.prepared(sink, attempt_of(task=0), rows_from(0, 2))
        answers = list(sink.commit([kept, lost]))
        demand(answers[1].outcome not in TAKEN, f"a lost transaction is not {answers[1].outcome.name}")
        demand(sink.evidence(lost) is not Evidence.PRESENT, "there is no evidence of a lost transaction")
        seen = [row["id"] for row in self.read_target()]
        demand(set(seen) <= {0, 1}, f"rows that are lost are not seen: {seen}")

    def test_refused_rows_are_those_that_write_cannot_take(self) -> None:
        """Rows with nulls and invalid UTF-8 text: the sink refuses exactly those that it cannot write.

        Dead letters rely on that.
        """
        sink = self.opened()
        batch = odd_rows()
        gone = [each.row for each in sink.refused(batch)]
        demand(len(set(gone)) == len(gone) and None not in gone, f"refused names each row once, by its index: {gone}")
        for row in range(batch.num_rows):
            transaction = begun(sink, attempt_of(task=row))
            try:
                transaction.write(batch.take(pa.array([row])))
                taken = True
            except RowRefused:
                taken = False
            transaction.abort()
            demand(taken is (row not in gone), f"write and refused agree on row {row} of {batch.num_rows}")

    def test_an_attempt_that_is_begun_again_begins_empty(self) -> None:
        """As in a replay from the journal: no row of the older transaction becomes visible."""
        self.skip_if_rows_are_visible_inside()
        sink = self.opened()
        self.prepared(sink, attempt_of(), rows_from(10, 2))
        again = self.prepared(sink, attempt_of(), rows_from(0, 2))
        self.all_answer(sink.commit([again]), Outcome.COMMITTED)
        self.target_has(rows_from(0, 2))

    def test_at_least_once_shows_an_epoch_that_runs_again(self) -> None:
        """At at-least-once a sink commits inside the epoch, before the decision.

        No evidence blocks a second run of the epoch, so an epoch that runs twice is visible twice.
        """
        self.skip_if_rows_are_visible_inside()
        sink = self.opened()
        if Level.AT_LEAST_ONCE not in sink.levels:
            pytest.skip("this sink is never at-least-once")
        for run in (1, 2):
            again = self.prepared(sink, attempt_of(run=run), rows_from(run * 10, 2))
            self.all_answer(sink.commit_straight([again]), Outcome.COMMITTED)
        self.target_has(rows_from(10, 2), rows_from(20, 2))

    def test_opening_again_changes_nothing(self) -> None:
        sink = self.opened()
        sink.commit([self.prepared(sink, attempt_of(), rows_from(0, 2))])
        again = self.opened()
        demand(not list(again.check(self.plan())), "a target that the sink opened itself passes its check")
        self.target_has(rows_from(0, 2))

    def test_settings_travel_to_the_tasks_and_expressions_do_not(self) -> None:
        sink = self.opened()
        sink.select = [lambda: "a Column does not pickle"]
        travelled = pickle.loads(pickle.dumps(sink))
        committable = self.prepared(travelled, attempt_of(), rows_from(0, 2))
        self.all_answer(sink.commit([committable]), Outcome.COMMITTED)
        self.target_has(rows_from(0, 2))
