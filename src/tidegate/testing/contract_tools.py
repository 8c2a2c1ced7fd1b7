"""Tools for the tests of the contract suite: opened sinks, and transactions that are prepared or killed."""

from __future__ import annotations

import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import ClassVar, cast

import msgspec
import pyarrow as pa
import pytest

from tidegate.core.guarantees import Shows
from tidegate.core.json_formats import parsed
from tidegate.core.records import Answer, Attempt, Committable, Evidence, Outcome
from tidegate.sinks.base import JournalKeeper, SinkPlan, Transaction, TwoPhaseSink
from tidegate.testing.contract_parts import (
    IDENTITY,
    PATIENCE_SECONDS,
    SCHEMA,
    ContractBroken,
    ContractJournal,
    Row,
    begun,
    commit_and_die,
    commit_together,
    demand,
    in_order,
    prepare_and_wait,
    processes,
    write_and_die,
)

TAKEN = {Outcome.COMMITTED, Outcome.ALREADY}


class ContractTools(ABC):
    """Base class with the sink under test, its target, and actions for tests. Your own tests may inherit it, too."""

    lives_in_one_process: ClassVar[bool] = False
    """True if the target is the memory of this process: no other process can commit into it."""
    keeps_evidence: ClassVar[bool] = True
    """False if the target has no evidence (`TwoPhaseCommitSink`): `evidence` is then always ABSENT."""
    notices_second_timeline: ClassVar[bool] = True
    """False if every attempt has its own evidence key (Kafka): there is nothing to compare."""

    forks_with_client: ClassVar[bool] = True
    """False if the client of the target cannot be used behind a fork (hdfs-native): each killed process opens the sink
    itself."""

    kills_at_most: ClassVar[int] = 40
    """Maximum number of kills in one test. A commit with more external calls is killed before every second, third, ...
    call."""

    folder: Path
    """An empty folder for each test."""

    @abstractmethod
    def make_sink(self) -> TwoPhaseSink:
        """A new sink object. Every call in one test uses the same target."""

    @abstractmethod
    def read_target(self) -> list[Row]:
        """All rows that a reader of the target sees now, in any order. Called only after `open`."""

    @pytest.fixture(autouse=True)
    def in_an_empty_folder(self, tmp_path: Path) -> None:
        self.set_up(tmp_path)

    def set_up(self, folder: Path) -> None:
        self.folder = folder

    def plan(self) -> SinkPlan:
        return SinkPlan(
            identity=IDENTITY,
            schema=SCHEMA,
            mode="append",
            local_master=True,
            read_journal=ContractJournal(self.folder / "journal").read,
        )

    def opened(self) -> TwoPhaseSink:
        sink = self.make_sink()
        sink.open(self.plan())
        return sink

    def prepared(self, sink: TwoPhaseSink, attempt: Attempt, *batches: pa.RecordBatch) -> Committable:
        """The committable of a complete transaction. Its rows are in the journal if the sink needs that."""
        transaction = begun(sink, attempt)
        for batch in batches:
            transaction.write(batch)
        return self.reported(transaction, batches)

    @contextmanager
    def elsewhere(self) -> Generator[None, None, None]:
        """Inside the block `make_sink` returns sinks of another target."""
        here = self.folder
        self.folder = here / "elsewhere"
        self.folder.mkdir()
        try:
            yield
        finally:
            self.folder = here

    def prepared_by_a_killed_process(self, attempt: Attempt, *batches: pa.RecordBatch) -> Committable:
        child, pipe = _started(prepare_and_wait, self.make_sink(), attempt, batches)
        demand(pipe.poll(PATIENCE_SECONDS), "a transaction is prepared in time")
        data = pipe.recv_bytes()
        child.kill()
        child.join()
        demand(child.exitcode == -signal.SIGKILL, "the process that prepared was killed")
        return self._journalled(parsed(data, Committable), batches)

    def target_has(self, *batches: pa.RecordBatch) -> None:
        """Check that a reader sees exactly these rows now."""
        wanted = in_order(row for batch in batches for row in batch.to_pylist())
        found = in_order(self.read_target())
        demand(found == wanted, f"a reader sees {wanted}, but it saw {found}")

    def target_has_decided(self, *batches: pa.RecordBatch) -> None:
        """The same, in a test that also prepares rows without committing them: a sink may show those, too, if it
        declares `Shows.INSIDE`."""
        if not self.shows_rows_inside:
            self.target_has(*batches)
            return
        found = self.read_target()
        missing = [row for batch in batches for row in batch.to_pylist() if row not in found]
        demand(not missing, f"a reader sees {missing} among {found}")

    def all_answer(self, answers: Sequence[Answer], outcome: Outcome) -> None:
        """Check that every committable got this answer."""
        demand(
            bool(answers) and all(answer.outcome is outcome for answer in answers),
            f"every answer is {outcome.name}, not {list(answers)}",
        )

    def all_taken(self, answers: Sequence[Answer]) -> None:
        """Check that every committable is committed, by this commit or an older one: a target need not distinguish
        them."""
        demand(bool(answers) and all(answer.outcome in TAKEN for answer in answers), f"all are taken: {list(answers)}")

    def reported(self, transaction: Transaction, batches: Sequence[pa.RecordBatch]) -> Committable:
        committable = transaction.pre_commit()
        if committable is None:
            raise ContractBroken("pre_commit returned None, though rows were written")
        return self._journalled(committable, batches)

    def _journalled(self, committable: Committable, batches: Sequence[pa.RecordBatch]) -> Committable:
        """Write the journal as the writer in a task does. The committable also passes through JSON."""
        if self.make_sink().journal_keeper() is JournalKeeper.LEDGER:
            reference = ContractJournal(self.folder / "journal").keep(committable.attempt, batches)
            committable = msgspec.structs.replace(committable, journal=reference)
        return parsed(msgspec.json.encode(committable), Committable)

    def committed_by_two_processes(self, committables: Sequence[Committable]) -> list[Answer]:
        together = processes().Barrier(2)
        started = [
            _started(commit_together, together, self.make_sink(), self.plan(), list(committables)) for _ in range(2)
        ]
        for _, pipe in started:
            demand(pipe.poll(PATIENCE_SECONDS), "a finisher answers in time")
        answers = [parsed(pipe.recv_bytes(), list[Answer]) for _, pipe in started]
        for child, _ in started:
            child.join()
        return [answer for each in answers for answer in each]

    @contextmanager
    def finishers(self) -> Generator[Callable[[Sequence[Committable], int], int], None, None]:
        """Yields `commit_and_die(committables, place)`: another process commits, and is killed before its external call
        number `place`. It returns the number of such calls in the whole commit; 0 if the process was killed."""
        with _killed_anywhere(commit_and_die, self.make_sink(), self.plan(), self.forks_with_client) as act:
            yield lambda committables, place: act((place, list(committables)))

    @contextmanager
    def writers(self, *batches: pa.RecordBatch) -> Generator[Callable[[Attempt, int], int], None, None]:
        """Yields `write_and_die(attempt, place)`: the same for a process that writes `batches` and pre-commits."""
        with _killed_anywhere(write_and_die, self.make_sink(), self.plan(), self.forks_with_client, batches) as act:
            yield lambda attempt, place: act((place, attempt))

    def redone(self, sink: TwoPhaseSink, committable: Committable, answer: Answer) -> bool:
        """Rewrite a lost transaction from its journal as recovery does: fence, check, write.

        True if it could be written.
        """
        if answer.outcome is not Outcome.LOST or committable.journal is None:
            return False
        sink.fence(committable)
        demand(sink.evidence(committable) is Evidence.ABSENT, "a lost transaction has no evidence after the fence")
        batches = self.plan().read_journal(committable.journal)
        return sink.redo(committable, batches).outcome in TAKEN

    def skip_without_evidence(self) -> None:
        if not self.keeps_evidence:
            pytest.skip("this target keeps no evidence")

    def skip_unless_timelines_are_compared(self) -> None:
        self.skip_without_evidence()
        if not self.notices_second_timeline:
            pytest.skip("this target has a key of its own for every attempt")

    @property
    def shows_rows_inside(self) -> bool:
        """True for an idempotent sink, whose rows are visible before their epoch is decided."""
        return self.make_sink().shows is Shows.INSIDE

    def skip_if_rows_are_visible_inside(self) -> None:
        if self.shows_rows_inside:
            pytest.skip("rows of this sink are visible inside their epoch: IdempotentContract says what holds instead")

    def skip_in_one_process(self) -> None:
        if self.lives_in_one_process:
            pytest.skip("the target is the memory of one process")


def _with_environment(environment: Mapping[str, str], target: Callable[..., None], *arguments: object) -> None:
    """Processes are forked from one that has the environment of the first test."""
    os.environ.update(environment)
    target(*arguments)


@contextmanager
def _killed_anywhere(target: Callable[..., None], *arguments: object) -> Generator[Callable[[object], int], None, None]:
    """A process that runs `target`, which takes orders. Yields a function that sends one and returns the answer."""
    child, pipe = _started(target, *arguments)

    def act(order: object) -> int:
        pipe.send_bytes(msgspec.json.encode(order))
        demand(pipe.poll(PATIENCE_SECONDS), "it ends in time")
        calls = parsed(pipe.recv_bytes(), int)
        demand(calls >= 0, "it returns, or was killed")
        return calls

    try:
        yield act
    finally:
        pipe.close()
        child.join()


def _started(target: Callable[..., None], *arguments: object) -> tuple[BaseProcess, Connection]:
    """A process that runs `target(pipe, *arguments)`, and our end of the pipe."""
    mine, theirs = processes().Pipe()
    child = processes().Process(target=_with_environment, args=(dict(os.environ), target, theirs, *arguments))
    child.start()
    theirs.close()
    return child, cast("Connection", mine)
