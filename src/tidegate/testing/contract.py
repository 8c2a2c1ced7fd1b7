"""The contract of a two-phase sink as a suite of tests. Needs pytest.

    class TestMySink(SinkContract):
        def make_sink(self) -> TwoPhaseSink:
            return MySink("numbers", self.folder / "target")

        def read_target(self) -> list[Row]:
            return [{"id": ..., "word": ...} for ... in ...]

What is demanded is what makes Flink's `TwoPhaseCommitSinkFunction` exact, one test each (the external system has
transactions or simulates them; open for the whole interval and writable in it; not visible before commit;
recoverable after the process has died; commit idempotent), and what tidegate's recovery relies on beyond that.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import pickle
import signal
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import msgspec
import pyarrow as pa
import pytest

from tidegate.core.records import (
    Answer,
    Attempt,
    Committable,
    Evidence,
    JournalRef,
    Outcome,
    Position,
    SinkIdentity,
    epoch_digest,
)
from tidegate.sinks.base import JournalKeeper, SinkPlan, Transaction, TwoPhaseSink

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext
    from multiprocessing.synchronize import Barrier

Row = dict[str, Any]

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("word", pa.string())])
"""The rows of every test; `id` is unique in a test, so a sink with a key can have it as its key."""

PATIENCE_SECONDS = 60
"""How long the suite waits for a process of its own."""


class ContractBroken(AssertionError):
    """A sink does not do what the contract demands."""


class SinkContract(ABC):
    """Subclass as `Test...`, define `make_sink` and `read_target`."""

    lives_in_one_process: ClassVar[bool] = False
    """True where the target is this process's memory: then no other process can commit into it."""
    notices_second_timeline: ClassVar[bool] = True
    """False where evidence has a key of its own for every attempt (Kafka): nothing to compare it with."""

    folder: Path
    """An empty folder for each test."""

    @abstractmethod
    def make_sink(self) -> TwoPhaseSink:
        """A new sink object, the same target at every call of one test."""

    @abstractmethod
    def read_target(self) -> list[Row]:
        """All rows that a reader of the target sees now, in any order. Called only after `open`."""

    @pytest.fixture(autouse=True)
    def in_an_empty_folder(self, tmp_path: Path) -> None:
        self.set_up(tmp_path)

    def set_up(self, folder: Path) -> None:
        self.folder = folder

    # --- what Flink's contract demands -----------------------------------------------------------------------

    def test_the_target_has_transactions_or_simulates_them(self) -> None:
        """Several transactions of several tasks are open side by side, and all of an epoch's rows arrive."""
        sink = self.opened()
        transactions = [_begun(sink, attempt_of(task=task)) for task in range(3)]
        for turn in range(2):
            for task, transaction in enumerate(transactions):
                transaction.write(rows_from(task * 10 + turn, 1))
        kept = [[rows_from(task * 10, 1), rows_from(task * 10 + 1, 1)] for task in range(3)]
        committables = [self._reported(each, rows) for each, rows in zip(transactions, kept, strict=True)]
        self.all_answer(sink.commit(committables), Outcome.COMMITTED)
        self.target_has(*(batch for rows in kept for batch in rows))

    def test_a_transaction_is_open_and_writable_for_the_whole_interval(self) -> None:
        """While an older epoch is committed a newer one takes rows, before it and after it."""
        sink = self.opened()
        older = self.prepared(sink, attempt_of(epoch=1), rows_from(0, 2))
        newer = _begun(sink, attempt_of(epoch=2))
        newer.write(rows_from(10, 2))
        self.all_answer(sink.commit([older]), Outcome.COMMITTED)
        newer.write(rows_from(20, 2))
        committable = self._reported(newer, [rows_from(10, 2), rows_from(20, 2)])
        self.all_answer(sink.commit([committable]), Outcome.COMMITTED)
        self.target_has(rows_from(0, 2), rows_from(10, 2), rows_from(20, 2))

    def test_nothing_is_visible_before_commit(self) -> None:
        sink = self.opened()
        transaction = _begun(sink, attempt_of())
        transaction.write(rows_from(0, 3))
        self.target_has()
        committable = self._reported(transaction, [rows_from(0, 3)])
        self.target_has()
        self.all_answer(sink.commit([committable]), Outcome.COMMITTED)
        self.target_has(rows_from(0, 3))

    def test_a_prepared_transaction_outlives_the_process_that_prepared_it(self) -> None:
        """It is prepared in a process that is killed with SIGKILL, and committed from this one."""
        sink = self.opened()
        committable = self.prepared_by_a_killed_process(attempt_of(), rows_from(0, 3))
        self.all_answer(sink.commit([committable]), Outcome.COMMITTED)
        self.target_has(rows_from(0, 3))

    def test_commit_is_idempotent(self) -> None:
        """The second commit comes from another sink object, as after a crash."""
        first = self.opened()
        committables = [self.prepared(first, attempt_of(task=task), rows_from(task * 10, 2)) for task in range(2)]
        self.all_answer(first.commit(committables), Outcome.COMMITTED)
        self.all_answer(self.opened().commit(committables), Outcome.ALREADY)
        self.target_has(rows_from(0, 2), rows_from(10, 2))

    # --- what recovery relies on -----------------------------------------------------------------------------

    def test_commit_takes_the_tasks_in_any_order(self) -> None:
        sink = self.opened()
        tasks = [self.prepared(sink, attempt_of(task=task), rows_from(task * 10, 2)) for task in range(3)]
        self.all_answer(sink.commit([tasks[2], tasks[0], tasks[1]]), Outcome.COMMITTED)
        self.all_answer(sink.commit([tasks[1], tasks[2], tasks[0]]), Outcome.ALREADY)
        self.target_has(rows_from(0, 2), rows_from(10, 2), rows_from(20, 2))

    def test_two_finishers_at_once_commit_once(self) -> None:
        """Two processes commit the same epoch at the same moment; RETRY is tried again."""
        self._skip_in_one_process()
        sink = self.opened()
        committables = [self.prepared(sink, attempt_of(task=task), rows_from(task * 10, 50)) for task in range(2)]
        answers = self._committed_by_two_processes(committables)
        _demand(
            {answer.outcome for answer in answers} <= {Outcome.COMMITTED, Outcome.ALREADY},
            f"both finishers end with COMMITTED or ALREADY, not {answers}",
        )
        self.target_has(rows_from(0, 50), rows_from(10, 50))

    def test_evidence_is_absent_before_commit_and_present_after_it(self) -> None:
        sink = self.opened()
        committables = [self.prepared(sink, attempt_of(task=task), rows_from(task * 10, 2)) for task in range(2)]
        for committable in committables:
            _demand(sink.evidence(committable) is Evidence.ABSENT, "evidence is ABSENT before commit")
        sink.commit(committables)
        for committable in committables:
            _demand(self.opened().evidence(committable) is Evidence.PRESENT, "evidence is PRESENT after commit")

    def test_a_second_timeline_is_noticed(self) -> None:
        """Another run has the same epoch with other rows: it gets in nothing, and the evidence says why."""
        if not self.notices_second_timeline:
            pytest.skip("this target has a key of its own for every attempt")
        sink = self.opened()
        ours = self.prepared(sink, attempt_of(run=1), rows_from(0, 2))
        theirs = self.prepared(sink, attempt_of(run=2), rows_from(10, 2))
        self.all_answer(sink.commit([ours]), Outcome.COMMITTED)
        self.all_answer(sink.commit([theirs]), Outcome.UNKNOWN)
        _demand(sink.evidence(theirs) is Evidence.OTHER, "evidence for the second timeline is OTHER")
        _demand(sink.evidence(ours) is Evidence.PRESENT, "evidence for the first timeline stays PRESENT")
        self.target_has(rows_from(0, 2))

    def test_an_aborted_transaction_leaves_nothing_visible(self) -> None:
        """Aborted half-written; the next attempt of the same task is not hindered by it."""
        sink = self.opened()
        failed = _begun(sink, attempt_of(task_attempt=0))
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
        """A finisher that was stalled asks again: ALREADY, or UNKNOWN where the proof has gone."""
        sink = self.opened()
        committable = self.prepared(sink, attempt_of(epoch=1), rows_from(0, 2))
        sink.commit([committable])
        sink.clean(IDENTITY, 1)
        answers = sink.commit([committable])
        _demand(
            {answer.outcome for answer in answers} <= {Outcome.ALREADY, Outcome.UNKNOWN},
            f"a commit after clean-up is ALREADY or UNKNOWN, not {answers}",
        )
        self.target_has(rows_from(0, 2))

    def test_discarding_undecided_epochs_spares_the_decided(self) -> None:
        sink = self.opened()
        decided = self.prepared(sink, attempt_of(epoch=1), rows_from(0, 2))
        self.prepared(sink, attempt_of(epoch=2), rows_from(10, 2))
        sink.discard(IDENTITY, 2)
        sink.discard(IDENTITY, 2)
        self.all_answer(sink.commit([decided]), Outcome.COMMITTED)
        self.target_has(rows_from(0, 2))

    def test_a_transaction_without_rows_is_none(self) -> None:
        sink = self.opened()
        _demand(_begun(sink, attempt_of()).pre_commit() is None, "pre_commit without rows returns None")
        _demand(not list(sink.commit([])), "a commit of nothing answers nothing")
        self.target_has()

    def test_a_retried_task_does_not_see_its_predecessor(self) -> None:
        """The first attempt prepared and was killed; it holds nothing up and none of its rows arrive."""
        sink = self.opened()
        self.prepared_by_a_killed_process(attempt_of(task_attempt=0), rows_from(10, 2))
        retried = self.prepared(sink, attempt_of(task_attempt=1), rows_from(0, 2))
        self.all_answer(sink.commit([retried]), Outcome.COMMITTED)
        self.target_has(rows_from(0, 2))

    def test_an_older_generation_does_not_count_for_a_newer_one(self) -> None:
        sink = self.opened()
        sink.commit([self.prepared(sink, attempt_of(generation=1), rows_from(0, 2))])
        newer = self.prepared(sink, attempt_of(generation=2), rows_from(10, 2))
        _demand(sink.evidence(newer) is Evidence.ABSENT, "the epoch of a newer generation is ABSENT")
        self.all_answer(sink.commit([newer]), Outcome.COMMITTED)
        self.target_has(rows_from(0, 2), rows_from(10, 2))

    def test_the_position_is_the_newest_evidence(self) -> None:
        sink = self.opened()
        if not sink.remembers:
            pytest.skip("this target keeps no evidence over a restart")
        _demand(sink.position(IDENTITY) is None, "there is no position before the first commit")
        committables: list[Committable] = []
        for epoch in range(9, 12):
            committables = [self.prepared(sink, attempt_of(epoch=epoch), rows_from(epoch * 10, 2))]
            sink.commit(committables)
        newest = Position(job_id=IDENTITY.job_id, generation=1, epoch=11, digest=epoch_digest(committables))
        found = self.opened().position(IDENTITY)
        _demand(found == newest, f"the position is {newest}, not {found}")
        other = msgspec.structs.replace(IDENTITY, sink="another")
        _demand(sink.position(other) is None, "another sink's evidence is no position of this one")

    def test_opening_again_changes_nothing(self) -> None:
        sink = self.opened()
        sink.commit([self.prepared(sink, attempt_of(), rows_from(0, 2))])
        again = self.opened()
        _demand(not list(again.check(self.plan())), "a target that the sink opened itself passes its check")
        self.target_has(rows_from(0, 2))

    def test_settings_travel_to_the_tasks_and_expressions_do_not(self) -> None:
        sink = self.opened()
        sink.select = [lambda: "a Column does not pickle"]
        travelled = pickle.loads(pickle.dumps(sink))
        committable = self.prepared(travelled, attempt_of(), rows_from(0, 2))
        self.all_answer(sink.commit([committable]), Outcome.COMMITTED)
        self.target_has(rows_from(0, 2))

    # --- for the tests above, and for more of your own -------------------------------------------------------

    def plan(self) -> SinkPlan:
        return SinkPlan(
            identity=IDENTITY,
            schema=SCHEMA,
            mode="append",
            local_master=True,
            read_journal=_Journal(self.folder / "journal").read,
        )

    def opened(self) -> TwoPhaseSink:
        sink = self.make_sink()
        sink.open(self.plan())
        return sink

    def prepared(self, sink: TwoPhaseSink, attempt: Attempt, *batches: pa.RecordBatch) -> Committable:
        """The committable of a whole transaction, its rows in the journal where the sink wants that."""
        transaction = _begun(sink, attempt)
        for batch in batches:
            transaction.write(batch)
        return self._reported(transaction, batches)

    def prepared_by_a_killed_process(self, attempt: Attempt, *batches: pa.RecordBatch) -> Committable:
        processes = _processes()
        mine, theirs = processes.Pipe()
        child = processes.Process(target=_prepare_and_wait, args=(theirs, self.make_sink(), attempt, batches))
        child.start()
        theirs.close()
        _demand(mine.poll(PATIENCE_SECONDS), "a transaction is prepared in time")
        data = mine.recv_bytes()
        child.kill()
        child.join()
        _demand(child.exitcode == -signal.SIGKILL, "the process that prepared was killed")
        return self._journalled(msgspec.json.decode(data, type=Committable), batches)

    def target_has(self, *batches: pa.RecordBatch) -> None:
        """Demand that a reader sees exactly these rows now."""
        wanted = _sorted(row for batch in batches for row in batch.to_pylist())
        found = _sorted(self.read_target())
        _demand(found == wanted, f"a reader sees {wanted}, but it saw {found}")

    def all_answer(self, answers: Sequence[Answer], outcome: Outcome) -> None:
        """Demand that every committable got this answer."""
        _demand(
            bool(answers) and all(answer.outcome is outcome for answer in answers),
            f"every answer is {outcome.name}, not {list(answers)}",
        )

    def _reported(self, transaction: Transaction, batches: Sequence[pa.RecordBatch]) -> Committable:
        committable = transaction.pre_commit()
        if committable is None:
            raise ContractBroken("pre_commit returned None, though rows were written")
        return self._journalled(committable, batches)

    def _journalled(self, committable: Committable, batches: Sequence[pa.RecordBatch]) -> Committable:
        """What the writer in a task adds: the journal. The committable has travelled as JSON, too."""
        if self.make_sink().journal is JournalKeeper.LEDGER:
            reference = _Journal(self.folder / "journal").keep(committable.attempt, batches)
            committable = msgspec.structs.replace(committable, journal=reference)
        return msgspec.json.decode(msgspec.json.encode(committable), type=Committable)

    def _committed_by_two_processes(self, committables: Sequence[Committable]) -> list[Answer]:
        processes = _processes()
        together = processes.Barrier(2)
        pipes = [processes.Pipe() for _ in range(2)]
        children = [
            processes.Process(
                target=_commit_together, args=(theirs, together, self.make_sink(), self.plan(), list(committables))
            )
            for _, theirs in pipes
        ]
        for child in children:
            child.start()
        for mine, theirs in pipes:
            theirs.close()
            _demand(mine.poll(PATIENCE_SECONDS), "a finisher answers in time")
        answers = [msgspec.json.decode(mine.recv_bytes(), type=list[Answer]) for mine, _ in pipes]
        for child in children:
            child.join()
        return [answer for each in answers for answer in each]

    def _skip_in_one_process(self) -> None:
        if self.lives_in_one_process:
            pytest.skip("the target is the memory of one process")


IDENTITY = SinkIdentity(job="orders", job_id="5f0c", generation=1, query="by-day", sink="numbers")
"""Whose transactions the suite's are."""


def attempt_of(*, generation: int = 1, run: int = 1, epoch: int = 0, task: int = 0, task_attempt: int = 0) -> Attempt:
    """The name of a transaction of `IDENTITY`."""
    return Attempt(
        sink=msgspec.structs.replace(IDENTITY, generation=generation),
        run=run,
        run_token=f"token{run}",
        epoch=epoch,
        task=task,
        task_attempt=task_attempt,
    )


def rows_from(first: int, count: int) -> pa.RecordBatch:
    """Rows of `SCHEMA` with ids from `first` * 1000 on."""
    ids = range(first * 1000, first * 1000 + count)
    return pa.RecordBatch.from_pylist([{"id": each, "word": f"word {each}"} for each in ids], schema=SCHEMA)


def _begun(sink: TwoPhaseSink, attempt: Attempt) -> Transaction:
    """Begun as in a task: by a copy of the sink that has travelled."""
    return pickle.loads(pickle.dumps(sink)).begin(attempt)


def _sorted(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: row["id"])


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise ContractBroken(f"the contract demands: {what}")


# --- other processes -------------------------------------------------------------------------------------------


def _processes() -> ForkServerContext:
    """Processes that share nothing with this one, and start at once: their server has imported all this before."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([__name__])
    return processes


def _prepare_and_wait(
    pipe: Connection, sink: TwoPhaseSink, attempt: Attempt, batches: Sequence[pa.RecordBatch]
) -> None:
    transaction = sink.begin(attempt)
    for batch in batches:
        transaction.write(batch)
    pipe.send_bytes(msgspec.json.encode(transaction.pre_commit()))
    signal.pause()  # until it is killed: nothing gets the chance to tidy up


def _commit_together(
    pipe: Connection, together: Barrier, sink: TwoPhaseSink, plan: SinkPlan, committables: Sequence[Committable]
) -> None:
    sink.open(plan)
    together.wait(PATIENCE_SECONDS)
    answers = sink.commit(committables)
    for _ in range(20):
        if all(answer.outcome is not Outcome.RETRY for answer in answers):
            break
        answers = sink.commit(committables)
    pipe.send_bytes(msgspec.json.encode(answers))


# --- the journal that a task's writer keeps --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Journal:
    folder: Path

    def keep(self, attempt: Attempt, batches: Sequence[pa.RecordBatch]) -> JournalRef:
        sink = attempt.sink
        name = f"g{sink.generation}-e{attempt.epoch}-{sink.sink}-{attempt.name}.arrow"
        self.folder.mkdir(exist_ok=True)
        with pa.OSFile(os.fspath(self.folder / name), "wb") as file, pa.ipc.new_stream(file, SCHEMA) as stream:
            cast("Any", stream).write_table(pa.Table.from_batches(batches))
        data = (self.folder / name).read_bytes()
        return JournalRef(
            name=name,
            rows=sum(batch.num_rows for batch in batches),
            size_bytes=len(data),
            checksum=hashlib.sha256(data).hexdigest(),
        )

    def read(self, reference: JournalRef) -> list[pa.RecordBatch]:
        with pa.OSFile(os.fspath(self.folder / reference.name), "rb") as file:
            return list(pa.ipc.open_stream(file))
