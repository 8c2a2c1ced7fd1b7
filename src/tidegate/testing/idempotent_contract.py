"""The contract of an idempotent sink (`Shows.INSIDE`) as a suite of tests. Needs pytest.

    class TestMySink(IdempotentContract):
        def make_sink(self) -> TwoPhaseSink:
            return MySink("numbers", self.folder / "target", key="id")

        def read_target(self) -> list[Row]:
            return [{"id": ..., "word": ...} for ... in ...]

It has the tests of `SinkContract` that hold without regard to when rows become visible: evidence, position, commits
that are killed, refused rows, other jobs. The tests here say what an idempotent sink promises instead of "nothing is
visible before commit": an epoch that runs again replaces its rows, and a late writer replaces nothing.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import msgspec
import pyarrow as pa
import pytest

from tidegate.core.errors import TidegateError
from tidegate.core.levels import Level
from tidegate.core.records import Outcome
from tidegate.sinks.base import Transaction
from tidegate.testing.contract import SinkContract
from tidegate.testing.contract_parts import (
    DIE_NOWHERE,
    IDENTITY,
    SCHEMA,
    ContractBroken,
    attempt_of,
    begun,
    demand,
    rows_from,
)

__all__ = ["IdempotentContract"]


class IdempotentContract(SinkContract):
    """The tests that every idempotent sink must pass. `make_sink` returns one with the key `id`."""

    def test_rows_are_visible_inside_their_epoch(self) -> None:
        sink = self.opened()
        demand(self.shows_rows_inside, "an idempotent sink declares `shows = Shows.INSIDE`")
        committable = self.prepared(sink, attempt_of(), rows_from(0, 3))
        self.target_has(rows_from(0, 3))
        self.all_answer(sink.commit([committable]), Outcome.COMMITTED)
        self.target_has(rows_from(0, 3))

    def test_an_epoch_that_runs_again_replaces_its_rows(self) -> None:
        """The first run dies half-way; the next one computes other rows for the same keys."""
        sink = self.opened()
        begun(sink, attempt_of(run=1)).write(_worded("first", 0, 4))
        again = self.prepared(sink, attempt_of(run=2), _worded("second", 0, 6))
        self.target_has(_worded("second", 0, 6))
        self.all_answer(sink.commit([again]), Outcome.COMMITTED)

    def test_a_write_that_is_killed_anywhere_is_replaced_by_the_next_run(self) -> None:
        """A task writes and is killed (SIGKILL) before its first external call, its second, and so on."""
        self.skip_in_one_process()
        sink, run = self.opened(), 1
        with self.writers(_worded("killed", 0, 5), _worded("killed", 5, 5)) as write_and_die:
            places = [DIE_NOWHERE]
            while places:
                sink.begin_run(IDENTITY, run, _token_of(run))
                place = places.pop()
                calls = write_and_die(attempt_of(run=run), place)
                if place == DIE_NOWHERE:
                    demand(calls > 0, "a write reaches beyond its process by a call that the suite knows")
                    places = [*range(0, calls, 1 + (calls - 1) // self.kills_at_most)]
                self.prepared(sink, attempt_of(run=run + 1), _worded(f"run {run + 1}", 0, 10))
                self.target_has(_worded(f"run {run + 1}", 0, 10))
                run += 2

    def test_a_run_that_was_paused_overwrites_nothing(self) -> None:
        """It wakes up beside its successor, with an open connection, and in an epoch that its successor is behind."""
        sink = self.opened()
        half, unbegun = begun(sink, attempt_of(run=1, epoch=7)), begun(sink, attempt_of(run=1, epoch=7, task=1))
        half.write(_worded("paused", 0, 2))
        self.prepared(sink, attempt_of(run=2, epoch=7), _worded("successor", 0, 4))
        for late in (half, unbegun):
            self._refuses(late, _worded("paused", 0, 6))
        self.target_has(_worded("successor", 0, 4))

    def test_a_driver_of_an_older_generation_overwrites_nothing(self) -> None:
        """A restore goes back to an earlier epoch; the driver before it has reached a later one, and a later run."""
        sink = self.opened()
        old = begun(sink, attempt_of(generation=1, run=9, epoch=7))
        old.write(_worded("old", 0, 2))
        self.prepared(sink, attempt_of(generation=2, run=1, epoch=3), _worded("restored", 0, 4))
        self._refuses(old, _worded("old", 0, 6))
        self.target_has(_worded("restored", 0, 4))

    def test_an_earlier_run_does_not_begin_beside_a_later_one(self) -> None:
        sink = self.opened()
        demand(sink.begin_run(IDENTITY, 5, _token_of(5)) is None, "a run begins")
        demand(sink.begin_run(IDENTITY, 5, _token_of(5)) is None, "beginning twice is no error")
        demand(self.opened().begin_run(IDENTITY, 4, _token_of(4)) is not None, "an earlier run is told the later one")
        demand(sink.begin_run(IDENTITY, 5, "copied") is not None, "nor does the same run of a copied checkpoint")
        later = msgspec.structs.replace(IDENTITY, generation=2)
        demand(sink.begin_run(later, 1, _token_of(1)) is None, "a later generation begins, whatever its runs are")
        demand(sink.begin_run(IDENTITY, 6, _token_of(6)) is not None, "an older generation does not")
        self._refuses(sink.begin(attempt_of(run=5)), rows_from(0, 1))
        self.target_has()

    def test_the_last_row_wins_in_the_order_of_tasks_and_rows(self) -> None:
        """Whichever task is faster."""
        sink = self.opened()
        self.prepared(sink, attempt_of(task=1), _worded("task 1", 0, 1))
        self.prepared(sink, attempt_of(task=0), _worded("task 0", 0, 2), _worded("its last", 1, 1))
        self.target_has(_worded("task 1", 0, 1), _worded("its last", 1, 1))

    def test_a_retried_task_replaces_the_rows_of_the_attempt_that_failed(self) -> None:
        """The rows of a key come in another order, or are others."""
        sink = self.opened()
        failed = begun(sink, attempt_of(task_attempt=3))
        failed.write(_worded("before", 0, 3))
        failed.write(_worded("failed", 0, 3))
        failed.abort()
        self.prepared(sink, attempt_of(task_attempt=4), _worded("retried", 0, 3))
        self.target_has(_worded("retried", 0, 3))

    def test_a_task_that_outlives_its_epoch_overwrites_nothing(self) -> None:
        """Also where the key was not written since."""
        sink = self.opened()
        late = begun(sink, attempt_of(epoch=1, task_attempt=9))
        later = begun(sink, attempt_of(epoch=2, task_attempt=9))
        sink.commit([self.prepared(sink, attempt_of(epoch=1), rows_from(0, 2))])
        self._refuses(late, _worded("late", 0, 4))
        sink.clean(IDENTITY, 2)
        self._refuses(later, _worded("late", 0, 4))
        self.target_has(rows_from(0, 2))

    def test_keys_of_another_job_are_refused_until_it_is_forgotten(self) -> None:
        sink = self.opened()
        self.prepared(sink, attempt_of(), rows_from(0, 2))
        theirs = msgspec.structs.replace(IDENTITY, job="others", job_id="beef")
        attempt = msgspec.structs.replace(attempt_of(), sink=theirs)
        self._refuses(begun(sink, attempt), _worded("theirs", 0, 1))
        self.target_has(rows_from(0, 2))
        for _ in range(2):
            sink.forget(IDENTITY)
        demand(sink.position(IDENTITY) is None, "a forgotten job has no evidence")
        self.prepared(sink, attempt, _worded("theirs", 0, 2))
        self.target_has(_worded("theirs", 0, 2))
        self._refuses(sink.begin(attempt_of(epoch=1)), rows_from(0, 1))

    def test_at_least_once_leaves_no_evidence(self) -> None:
        """An epoch that runs again is not held up by its own."""
        sink = self.opened()
        if Level.AT_LEAST_ONCE not in sink.levels:
            pytest.skip("this sink is never at-least-once")
        for run in (1, 2):
            again = self.prepared(sink, attempt_of(run=run), _worded(f"run {run}", 0, 2))
            self.all_answer(sink.commit_straight([again]), Outcome.COMMITTED)
        self.target_has(_worded("run 2", 0, 2))
        demand(sink.position(IDENTITY) is None, "no evidence is left")

    def _refuses(self, late: Transaction, batch: pa.RecordBatch) -> None:
        with _refused():
            late.write(batch)
            late.pre_commit()
        late.abort()


@contextmanager
def _refused() -> Generator[None]:
    try:
        yield
    except TidegateError:
        return
    raise ContractBroken("the contract demands: rows that come too late are refused with an error")


def _token_of(run: int) -> str:
    """The token of a run in `attempt_of`."""
    return attempt_of(run=run).run_token


def _worded(word: str, first: int, count: int) -> pa.RecordBatch:
    """Rows with these ids, whose words say who has written them."""
    rows = [{"id": each, "word": word} for each in range(first, first + count)]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
