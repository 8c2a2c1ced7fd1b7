"""A two-phase sink in five methods, as Flink's `TwoPhaseCommitSinkFunction` has them.

`TwoPhaseSink` asks for more, because it makes the target prove each commit. Here the target proves nothing: what makes
a commit safe is that it is idempotent, and that it says so when it finds nothing to commit.
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
from tidegate.sinks.row_values import InvalidText, refused_texts
from tidegate.sinks.rows import RowRefused, one_for_each_row
from tidegate.sinks.staging import file_name

T = TypeVar("T")
"""What the sink needs while one task writes: an open file, a connection. It never leaves its task."""


class TwoPhaseCommitSink(TwoPhaseSink, Generic[T]):
    """The base of a sink whose author writes five methods: begin, write, pre-commit, commit and abort.

    The rows of each epoch are also kept in the journal of the checkpoint until the epoch is done. So a transaction that
    the target has lost is written again: `begin_transaction`, `write`, `pre_commit` and `commit_transaction` come once
    more, with the same attempt and the same rows.

    The target keeps no evidence. Four faults are then not noticed, which a `TwoPhaseSink` with evidence reports: a
    checkpoint that was deleted or copied while the target stayed (its rows come twice); a target that was put back from
    an older copy (rows are missing); another job that writes into the same target under the same names; and committed
    output that was removed before its epoch was done (it is written again).
    """

    levels: ClassVar[frozenset[Level]] = frozenset(Level)
    remembers: ClassVar[bool] = False

    # --- the five methods ------------------------------------------------------------------------------------

    @abstractmethod
    def begin_transaction(self, attempt: Attempt) -> T:
        """Open a transaction, in a task.

        `attempt`: whose transaction it is. `attempt.name` is unique in its epoch, `attempt.epoch` is the number of the
        epoch, `attempt.sink` names job, query, sink and generation. The same attempt may be begun again, by another
        process: nothing that an earlier transaction of it wrote may arrive then.

        Returns what `write`, `pre_commit` and `abort_transaction` get; nothing may be visible to a reader.
        """

    @abstractmethod
    def write(self, transaction: T, batch: pa.RecordBatch) -> None:
        """Write the rows of `batch` (the columns of this sink, at least one row), in a task. Nothing becomes visible.

        Raise `tidegate.RowRefused` for a row that the target can never hold, or name such rows in `refused`.
        """

    @abstractmethod
    def pre_commit(self, transaction: T) -> Mapping[str, str]:
        """Make everything durable, in a task, so that it survives a power loss; and still nothing visible.

        Sync with `sync_file` and `sync_folder` of `tidegate.disk.durable`. The transaction is not used again.

        Returns what another process needs to commit, for instance the size of a file: texts by name, which are written
        to the checkpoint, so no secrets. The same rows of the same attempt must give the same texts.
        """

    @abstractmethod
    def commit_transaction(self, attempt: Attempt, handle: Mapping[str, str]) -> Outcome:
        """Make the rows of one transaction visible, on the driver. Return when that survives a power loss.

        `attempt` and `handle` are what `begin_transaction` got and `pre_commit` returned, possibly in another process.
        Called again after each crash and each lost answer, also for what is committed: it must be idempotent.

        Returns `COMMITTED`; `ALREADY` where it was visible before; `LOST` where neither the prepared rows nor the
        committed ones are there (the journal then writes them again); `RETRY` to be asked again later, which an
        `OSError` means as well; `UNKNOWN` where it cannot tell, which stops the job.
        """

    @abstractmethod
    def abort_transaction(self, transaction: T) -> None:
        """Give a transaction up after a failure in its task, before or after `pre_commit`. Raise nothing for what is
        gone already. A task that is killed aborts nothing: what it has left behind stays in the target, unseen."""

    def name_of(self, attempt: Attempt) -> str:
        """A name for the transaction of `attempt` that no other transaction of any job has; fit for a file."""
        sink = attempt.sink
        owner = ".".join(file_name(each) for each in (sink.job_id, sink.query, sink.sink))
        return f"{owner}.g{sink.generation}.e{attempt.epoch}.{attempt.name}"

    # --- what `TwoPhaseSink` asks for beside them --------------------------------------------------------------

    def refused(self, batch: pa.RecordBatch) -> Sequence[RowRefused]:
        """The rows with a text that is not UTF-8, which Spark's strings may hold and Python's may not."""
        return one_for_each_row(refused_texts(batch, InvalidText.REFUSE))

    def check(self, plan: SinkPlan) -> Sequence[TidegateError]:
        """Nothing stands against a start. Override it to find out whether the target can be written."""
        return ()

    def open(self, plan: SinkPlan) -> None:
        """Nothing is created. Override it to make a folder or a table; it is called at every start."""

    def position(self, identity: SinkIdentity) -> Position | None:
        return None

    def begin(self, attempt: Attempt) -> Transaction:
        return _OfAuthor(self, attempt)

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        return [self._answer(each) for each in committables]

    def commit_straight(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        return self.commit(committables)

    def evidence(self, committable: Committable) -> Evidence:
        """ABSENT: asked only for what `commit_transaction` has called lost, and the journal writes that again."""
        return Evidence.ABSENT

    def _answer(self, committable: Committable) -> Answer:
        try:
            return Answer(outcome=self.commit_transaction(committable.attempt, committable.handle))
        except OSError as error:  # a sync that failed is none: SyncFailed passes
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
