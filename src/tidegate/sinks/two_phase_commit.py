"""A base class for two-phase sinks with five methods, like Flink's `TwoPhaseCommitSinkFunction`.

`TwoPhaseSink` needs more methods, because there the target proves each commit. Here the target proves nothing. The
commit is safe because it is idempotent, and because it reports when it finds nothing to commit.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Generic, TypeVar

import pyarrow as pa

from tidegate.core.errors import TidegateError
from tidegate.core.levels import Level
from tidegate.core.records import (
    Answer,
    Attempt,
    Committable,
    Evidence,
    Outcome,
    Position,
    SinkIdentity,
    committable_digest,
)
from tidegate.sinks.base import SinkPlan, Transaction, TwoPhaseSink
from tidegate.sinks.promises import Promise
from tidegate.sinks.row_values import InvalidText, refused_texts
from tidegate.sinks.rows import RowRefused, one_for_each_row
from tidegate.sinks.staging import file_name

T = TypeVar("T")
"""The resources of the sink while one task writes: an open file, a connection. The value never leaves its task."""


class TwoPhaseCommitSink(TwoPhaseSink, Generic[T]):
    """Base class of a sink with five methods: begin, write, pre-commit, commit and abort.

    The journal of the checkpoint also keeps the rows of each epoch until the epoch is done. If the target loses a
    transaction, tidegate writes it again: it calls `begin_transaction`, `write`, `pre_commit` and `commit_transaction`
    once more, with the same attempt and the same rows.

    The target keeps no evidence. So four faults are not noticed; a `TwoPhaseSink` with evidence reports them. A
    checkpoint was deleted or copied while the target stayed (its rows appear twice). A target was restored from an
    older copy (rows are missing). Another job writes into the same target under the same names. Committed output was
    removed before its epoch was done (it is written again).
    """

    levels: ClassVar[frozenset[Level]] = frozenset(Level)
    remembers: ClassVar[bool] = False
    promises: ClassVar[Sequence[Promise]] = (
        Promise(
            page="write-your-own-sink.md",
            readers_see="the effect of its `commit_transaction`, once for each transaction",
            after_crash="the next start commits again; a lost transaction is written again from the journal",
            needs="`commit_transaction` is idempotent",
        ),
    )

    # --- the five methods ------------------------------------------------------------------------------------

    @abstractmethod
    def begin_transaction(self, attempt: Attempt) -> T:
        """Open a transaction, in a task.

        `attempt` identifies the transaction: `attempt.name` is unique in its epoch, `attempt.epoch` is the number of
        the epoch, `attempt.sink` names job, query, sink and generation. Another process may begin the same attempt
        again. After that, writes of the earlier transaction of this attempt must have no effect.

        Returns the value that `write`, `pre_commit` and `abort_transaction` receive. Nothing may be visible to a
        reader.
        """

    @abstractmethod
    def write(self, transaction: T, batch: pa.RecordBatch) -> None:
        """Write the rows of `batch` (the columns of this sink, at least one row), in a task. Nothing becomes visible.

        Raise `tidegate.RowRefused` for a row that the target can never hold, or return such rows from `refused`.
        """

    @abstractmethod
    def pre_commit(self, transaction: T) -> Mapping[str, str]:
        """Make everything durable, in a task, so that it survives a power loss. Nothing becomes visible.

        Sync with `sync_file` and `sync_folder` of `tidegate.disk.durable`. The transaction is not used again.

        Returns the values that another process needs for the commit, for example the size of a file: texts by name.
        They are written to the checkpoint, so they must not hold secrets. The same rows of the same attempt must give
        the same texts.
        """

    @abstractmethod
    def commit_transaction(self, attempt: Attempt, handle: Mapping[str, str]) -> Outcome:
        """Make the rows of one transaction visible, on the driver. Return when the result survives a power loss.

        `attempt` is the argument of `begin_transaction`; `handle` is the result of `pre_commit`, possibly of another
        process. The call is repeated after each crash and each lost answer, also for committed rows: it must be
        idempotent.

        Returns `COMMITTED`; `ALREADY` if the rows were visible before; `LOST` if neither the prepared rows nor the
        committed rows exist (the journal then writes them again); `RETRY` if the call should be repeated later (an
        `OSError` means the same); `UNKNOWN` if it cannot tell, which stops the job.
        """

    @abstractmethod
    def abort_transaction(self, transaction: T) -> None:
        """Abort a transaction after a failure in its task, before or after `pre_commit`. Raise nothing if it is gone
        already. A killed task aborts nothing: its prepared rows stay in the target, invisible.
        """

    def name_of(self, attempt: Attempt) -> str:
        """A name for the transaction of `attempt`, unique over all jobs, and valid as a file name."""
        sink = attempt.sink
        owner = ".".join(file_name(each) for each in (sink.job_id, sink.query, sink.sink))
        return f"{owner}.g{sink.generation}.e{attempt.epoch}.{attempt.name}"

    # --- the other methods of `TwoPhaseSink`, with defaults -----------------------------------------------------

    def refused(self, batch: pa.RecordBatch) -> Sequence[RowRefused]:
        """The rows with a text that is not UTF-8. Spark's strings may hold such texts, Python's may not."""
        return one_for_each_row(refused_texts(batch, InvalidText.REFUSE))

    def check(self, plan: SinkPlan) -> Sequence[TidegateError]:
        """Finds no reason against a start. Override it to check that the target can be written."""
        return ()

    def open(self, plan: SinkPlan) -> None:
        """Creates nothing. Override it to create a folder or a table; it is called at every start."""

    def position(self, identity: SinkIdentity) -> Position | None:
        return None

    def begin(self, attempt: Attempt) -> Transaction:
        return _OfAuthor(self, attempt)

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        return [self._answer(each) for each in committables]

    def commit_straight(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        return self.commit(committables)

    def evidence(self, committable: Committable) -> Evidence:
        """ABSENT. It is called only after `commit_transaction` returned LOST; the journal then writes the rows
        again.
        """
        return Evidence.ABSENT

    def _answer(self, committable: Committable) -> Answer:
        try:
            return Answer(outcome=self.commit_transaction(committable.attempt, committable.handle))
        except OSError as error:  # a failed sync is no RETRY: SyncFailed passes
            return Answer(outcome=Outcome.RETRY, detail=str(error))


class _OfAuthor(Transaction, Generic[T]):
    """Counts the rows, and calls the author's methods."""

    def __init__(self, sink: TwoPhaseCommitSink[T], attempt: Attempt) -> None:
        self._sink = sink
        self._attempt = attempt
        self._rows = 0
        self._transaction = sink.begin_transaction(attempt)

    def write(self, batch: pa.RecordBatch) -> None:
        for each in self._sink.refused(batch):
            raise each
        self._sink.write(self._transaction, batch)
        self._rows += batch.num_rows

    def pre_commit(self) -> Committable | None:
        if self._rows == 0:
            self.abort()
            return None
        handle = dict(self._sink.pre_commit(self._transaction))
        content = [f"rows:{self._rows}", *(f"{name}:{handle[name]}" for name in sorted(handle))]
        digest = committable_digest(self._attempt, "\n".join(content))
        return Committable(attempt=self._attempt, rows=self._rows, digest=digest, handle=handle)

    def abort(self) -> None:
        self._sink.abort_transaction(self._transaction)
