"""The code in the tasks: the rows of an epoch go once, through one `mapInArrow`, into all sinks of the query."""

from __future__ import annotations

import gc
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, StructField, StructType

from tidegate.arrays import binaries
from tidegate.core.errors import Code, Detail, TidegateError
from tidegate.core.json_formats import parsed
from tidegate.core.records import Attempt, Committable, SinkIdentity
from tidegate.core.telling import ToldStep, told
from tidegate.disk.strikes import STRIKES
from tidegate.sinks.arrow import batch_of
from tidegate.sinks.base import JournalKeeper, Transaction, TwoPhaseSink
from tidegate.sinks.dead_letters import dead_letters, reason_of, unparsed, without
from tidegate.sinks.rows import RowRefused, in_words, place_of
from tidegate.storages.journal import journal_name
from tidegate.storages.journals import open_journal

RESULT_SCHEMA = StructType([StructField("committables", BinaryType())])
"""The one column that a task returns: the result of one attempt (`TaskResult`), as JSON."""

_REASONS_AT_MOST = 3


class TaskResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one attempt: the committables of all sinks, the number of its rows, the number of refused rows that
    became dead letters, and the first reasons. `pre_commit_seconds`: how long the sinks took to pre-commit.
    """

    committables: list[Committable]
    rows: int
    pre_commit_seconds: float
    dead: int = 0
    reasons: list[str] = []


@dataclass(frozen=True, slots=True)
class SinkTask:
    """One sink in a task. `column`: the number of the struct column with its rows in the rows of the epoch.

    `takes_dead`: the sink of dead letters; the task itself makes its rows. Its column has the texts that did not
    parse; None if there are none.
    """

    column: int | None
    identity: SinkIdentity
    sink: TwoPhaseSink
    takes_dead: bool = False


@dataclass(frozen=True, slots=True)
class EpochTask:
    """Everything that is pickled to the tasks of one epoch. `word`: the random word of the driver's mark for errors."""

    epoch: int
    run: int
    run_token: str
    word: str
    journal_folder: str
    sinks: tuple[SinkTask, ...]

    def function(self) -> partial[Iterator[pa.RecordBatch]]:
        """The function for `mapInArrow`; pickled by name, so that workers keep this module's globals."""
        return partial(write_partition, self)


def write_partition(task: EpochTask, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write one partition into all sinks, pre-commit all, and return their committables as one row.

    Any error fails the attempt: all its transactions are aborted and nothing is returned.
    """
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("write_partition runs in a Spark task")
    _spare_the_collector()
    writers = [_SinkWriter(task, each, context.partitionId(), context.taskAttemptId()) for each in task.sinks]
    dead = next((_AttemptDeadLetters(writer) for writer in writers if writer.takes_dead), None)
    rows = 0
    try:
        for batch in batches:
            rows += batch.num_rows
            for writer in writers:
                writer.write(batch, dead)
        begun = time.monotonic()
        committables = _pre_commit(task, writers)
        pre_commit_seconds = time.monotonic() - begun
    except BaseException:
        for writer in writers:
            writer.abort()
        raise
    STRIKES.reach("task.prepared", task.epoch)
    result = TaskResult(committables=committables, rows=rows, pre_commit_seconds=pre_commit_seconds)
    if dead is not None:
        result = msgspec.structs.replace(result, dead=dead.rows, reasons=dead.reasons)
    yield batch_of([binaries([msgspec.json.encode(result)])], ["committables"])


def _pre_commit(task: EpochTask, writers: Sequence[_SinkWriter]) -> list[Committable]:
    with _told(task.word, ToldStep.PRE_COMMIT, {"epoch": task.epoch}):
        STRIKES.reach("task.prepare", task.epoch)
    return [committable for writer in writers if (committable := writer.pre_commit()) is not None]


@contextmanager
def _told(
    word: str, step: ToldStep, place: Mapping[str, Detail], batch: pa.RecordBatch | None = None
) -> Generator[None, None, None]:
    """An exception of a sink or a journal reaches the driver complete. `batch`: the rows that are being written."""
    try:
        yield
    except Exception as error:
        raise told(_placed(error, place, batch), step, word, behind=error) from error


def _placed(error: Exception, place: Mapping[str, Detail], batch: pa.RecordBatch | None) -> TidegateError:
    if isinstance(error, RowRefused):
        return error.placed(place, batch)
    if isinstance(error, TidegateError):
        return TidegateError(
            error.catalogue_entry,
            expected=error.expected,
            found=error.found,
            where=f"{error.where}, {in_words(place)}",
            next_step=error.next_step,
            details={**place, **error.details},
        )
    return TidegateError(
        Code.EPOCH_FAILED,
        expected="the sink to take the rows of a task and to pre-commit them",
        found=f"{type(error).__name__}: {error}",
        where=in_words(place),
        next_step="",  # the driver knows which input comes again
        details=place,
    )


def read_results(results: list[bytes]) -> list[TaskResult]:
    """The results of the tasks, in their order."""
    return [parsed(result, TaskResult) for result in results]


class _SinkWriter:
    """One sink's part of one attempt; opens nothing before the first row."""

    def __init__(self, task: EpochTask, sink: SinkTask, partition: int, task_attempt: int) -> None:
        self._sink = sink
        self.takes_dead = sink.takes_dead
        self.attempt = Attempt(
            sink=sink.identity,
            run=task.run,
            run_token=task.run_token,
            epoch=task.epoch,
            task=partition,
            task_attempt=task_attempt,
        )
        self._journal = (
            open_journal(task.journal_folder).writer(journal_name(self.attempt))
            if sink.sink.journal_keeper() is JournalKeeper.LEDGER
            else None
        )
        self._transaction: Transaction | None = None
        self._word = task.word
        self._place = place_of(self.attempt)

    def write(self, batch: pa.RecordBatch, dead: _AttemptDeadLetters | None) -> None:
        """Take this sink's rows of an epoch's batch. With `dead`, rows that the sink refuses become dead letters."""
        if self._sink.column is None:
            return
        rows = _rows_of(batch.column(self._sink.column))
        if dead is not None and self.takes_dead:
            dead.add(self.attempt, rows, unparsed(rows), sink="")
            return
        if dead is not None and rows.num_rows:
            with _told(self._word, ToldStep.WRITE, self._place, rows):
                refused = self._sink.sink.refused(rows)
            if refused:
                dead.add(self.attempt, rows, refused)
                rows = without(rows, refused)
        self.take(rows)

    def take(self, rows: pa.RecordBatch) -> None:
        """Write rows of this sink, if there are any."""
        if rows.num_rows:
            with _told(self._word, ToldStep.WRITE, self._place, rows):
                self._take(rows)

    def _take(self, rows: pa.RecordBatch) -> None:
        if self._transaction is None:
            STRIKES.reach("task.open", self.attempt.epoch)
            self._transaction = self._sink.sink.begin(self.attempt)
        self._transaction.write(rows)
        if self._journal is not None:
            self._journal.write(rows)
        STRIKES.reach("task.write", self.attempt.epoch)

    def pre_commit(self) -> Committable | None:
        if self._transaction is None:
            return None
        with _told(self._word, ToldStep.PRE_COMMIT, self._place):
            reference = None if self._journal is None else self._journal.close()
            committable = self._transaction.pre_commit()
        return committable if committable is None else msgspec.structs.replace(committable, journal=reference)

    def abort(self) -> None:
        if self._transaction is not None:
            self._transaction.abort()
        if self._journal is not None:
            self._journal.abort()


class _AttemptDeadLetters:
    """The dead letters of one attempt, and the sink that takes them."""

    def __init__(self, writer: _SinkWriter) -> None:
        self._writer = writer
        self.rows = 0
        self.reasons: list[str] = []

    def add(
        self, attempt: Attempt, rows: pa.RecordBatch, refused: Sequence[RowRefused], *, sink: str | None = None
    ) -> None:
        """Write the rows of `rows` that the sink of `attempt` has refused, or another `sink`; none if that is empty."""
        if not refused:
            return
        named = attempt.sink.sink if sink is None else sink
        self._writer.take(dead_letters(attempt, named, rows, refused))
        self.rows += len(refused)
        room = _REASONS_AT_MOST - len(self.reasons)
        self.reasons += [f"{f'sink {named!r}, ' if named else ''}{reason_of(each)}" for each in refused[:room]]


def _rows_of(column: pa.Array[Any]) -> pa.RecordBatch:
    """The rows of one struct column: those with a struct that is not null (a sink's `where` makes it null)."""
    if not isinstance(column, pa.StructArray):
        raise TypeError(f"rows for a sink are a struct column, not {column.type}")
    kept = column.filter(pc.is_valid(column)) if column.null_count else column
    names = [kept.type.field(index).name for index in range(kept.type.num_fields)]
    return pa.RecordBatch.from_arrays(kept.flatten(), names=names)


@cache
def _spare_the_collector() -> None:
    """Exclude a worker's imported objects from garbage collection, once. tidegate's own daemon has done it for all.

    Spark's worker runs a collection after every task. It would visit some 80,000 objects of pandas, pyarrow and pyspark
    that are never freed: 14 to 45 ms of CPU time, for each task of each epoch.
    """
    gc.freeze()
