"""For targets without transactions: the rows wait in the ledger's journal until their epoch is decided."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from tidegate.core.digests import digest_of
from tidegate.core.errors import TidegateError
from tidegate.core.guarantees import Shows
from tidegate.core.levels import Level
from tidegate.core.records import (
    Answer,
    Attempt,
    Committable,
    Evidence,
    JournalRef,
    Outcome,
    Position,
    SinkIdentity,
    committable_digest,
    epoch_digest,
)
from tidegate.sinks.base import JournalKeeper, SinkPlan, Transaction, TwoPhaseSink
from tidegate.sinks.promises import Promise
from tidegate.sinks.rows import RowRefused


@dataclass(frozen=True, slots=True)
class DecidedEpoch:
    """The epoch that is handed over: its owner, its number, and the transactions that the target does not have yet."""

    identity: SinkIdentity
    number: int
    committables: tuple[Committable, ...]

    @property
    def rows(self) -> int:
        return sum(committable.rows for committable in self.committables)

    @property
    def digest(self) -> str:
        """The value of `position` after one write has published the epoch."""
        return epoch_digest(self.committables)

    @property
    def key(self) -> str:
        """The name of this write: 64 hex digits. The same rows of the same epoch always have the same key, in each
        process; no other write of any job has it. So it serves as an idempotency key.
        """
        mine = self.identity
        parts = (mine.job_id, str(mine.generation), mine.query, mine.sink, str(self.number), self.digest)
        return digest_of("\n".join(parts).encode())


class WriteAheadSink(TwoPhaseSink):
    """Passes each decided epoch to `publish`: once, unless the process dies during or after that call.

    Flink's `GenericWriteAheadSink` has the same two steps, the write and its confirmation. A process that dies between
    them writes the epoch again there. Here the target is asked first whether it has the epoch. There are two ways to
    answer:

    * `evidence` looks for one transaction: `publish` writes the committables' digests together with the rows.
    * `confirmed` looks for the whole epoch: `publish` writes `epoch.key` together with the rows. `evidence` then
      returns UNKNOWN, because one transaction alone cannot be found.

    Both are exact if no write is under way any more when the target is asked. A write can arrive later: a request whose
    sender has died or no longer waits, or one of a driver that was paused inside of `publish` while its successor wrote
    the epoch. Only the target stops such a write: it must refuse a second one with the same `epoch.key`, or the same
    digests.

    If the target can prove nothing, `evidence` returns ABSENT: an epoch whose publishing was interrupted is published
    again (at-least-once), and each row of it is counted (`RowsShownAgain`). With UNKNOWN instead the job stops, and an
    operator must decide.
    """

    journal: ClassVar[JournalKeeper] = JournalKeeper.LEDGER
    levels: ClassVar[frozenset[Level]] = frozenset({Level.EXACTLY_ONCE, Level.AT_LEAST_ONCE})
    remembers: ClassVar[bool] = False
    promises: ClassVar[Sequence[Promise]] = (
        Promise(
            page="write-your-own-sink.md",
            readers_see="the effect of its `publish`, after the decision",
            after_crash="exact with evidence or the epoch's key; otherwise published again and counted",
            needs="`confirmed` or `evidence`, and a target that refuses the same key twice",
        ),
    )
    shows: ClassVar[Shows] = Shows.AGAIN
    """A subclass whose `publish` writes evidence together with the rows sets `Shows.ONCE`."""

    _read_journal: Callable[[JournalRef], Iterable[pa.RecordBatch]] | None = None

    @abstractmethod
    def publish(self, epoch: DecidedEpoch, batches: Iterable[pa.RecordBatch]) -> None:
        """Write the rows, in the order of tasks. Return when they are durable.

        `epoch`: the owner, the number, the transactions without evidence, and the key of this write. `batches`: their
        rows, read from the journal as they are taken.

        Called on the driver, for one epoch after the other. OSError means "not now": the call is repeated. Any other
        exception ends the run; the next start publishes the epoch again. A failed sync is not "not now": use the sync
        functions in `tidegate.disk.durable`, which raise `SyncFailed`.
        """

    def confirmed(self, epoch: DecidedEpoch) -> bool | None:
        """Whether the target has the whole epoch: asked before each `publish`, also after one without an answer.

        `epoch`: all transactions of the epoch. Returns True if all of its rows are there and survive a power loss;
        False if none is there, and `publish` writes them. None, the default, asks `evidence` for each transaction
        instead: `publish` gets those that are absent, and an UNKNOWN stops the job. OSError means "not now": the call
        is repeated.
        """
        return None

    def check(self, plan: SinkPlan) -> Sequence[TidegateError]:
        return []

    def open(self, plan: SinkPlan) -> None:
        """Keeps the function that reads the journal. A subclass that overrides this method must call it."""
        self._read_journal = plan.read_journal

    def position(self, identity: SinkIdentity) -> Position | None:
        """None. A subclass with evidence in the target overrides this and sets `remembers`."""
        return None

    def begin(self, attempt: Attempt) -> Transaction:
        return _Counted(attempt, self.refused)

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        if not committables:
            return []
        try:
            confirmed = self.confirmed(_epoch_of(committables))
        except OSError as error:
            return [Answer(outcome=Outcome.RETRY, detail=str(error))] * len(committables)
        if confirmed is None:
            return self._commit_by_evidence(committables)
        return [_PUBLISHED if confirmed else self._hand_over(committables)] * len(committables)

    def _commit_by_evidence(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        found = [self.evidence(committable) for committable in committables]
        if any(evidence in (Evidence.UNKNOWN, Evidence.OTHER) for evidence in found):
            return [_UNPROVEN[evidence] for evidence in found]
        missing = [each for each, evidence in zip(committables, found, strict=True) if evidence is Evidence.ABSENT]
        answer = self._hand_over(missing) if missing else None
        return [_PUBLISHED if evidence is Evidence.PRESENT else answer or _PUBLISHED for evidence in found]

    def commit_straight(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        return [self._hand_over(committables)] * len(committables)

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "_read_journal": None}

    def _hand_over(self, committables: Sequence[Committable]) -> Answer:
        epoch = _epoch_of(committables)
        try:
            self.publish(epoch, self._journalled(epoch.committables))
        except OSError as error:
            return Answer(outcome=Outcome.RETRY, detail=str(error))
        return Answer(outcome=Outcome.COMMITTED)

    def _journalled(self, committables: Sequence[Committable]) -> Iterator[pa.RecordBatch]:
        if self._read_journal is None:
            raise RuntimeError(f"sink {self.uid!r}: commit before open")
        for committable in committables:
            if committable.journal is None:
                raise RuntimeError(f"sink {self.uid!r}: {committable.attempt.name} has no journal")
            yield from self._read_journal(committable.journal)


def _epoch_of(committables: Sequence[Committable]) -> DecidedEpoch:
    in_task_order = tuple(sorted(committables, key=lambda committable: committable.attempt.task))
    attempt = in_task_order[0].attempt
    return DecidedEpoch(attempt.sink, attempt.epoch, in_task_order)


_PUBLISHED = Answer(outcome=Outcome.ALREADY, detail="the target's evidence is there")
_UNPROVEN = {
    Evidence.PRESENT: _PUBLISHED,
    Evidence.ABSENT: Answer(outcome=Outcome.RETRY, detail="not published: the epoch's other evidence is unclear"),
    Evidence.UNKNOWN: Answer(outcome=Outcome.UNKNOWN, detail="the target cannot tell whether it was published"),
    Evidence.OTHER: Answer(outcome=Outcome.UNKNOWN, detail="the target has this epoch with other rows"),
}


class _Counted(Transaction):
    """Only checks and counts the rows: the task's writer keeps them in the journal and syncs it."""

    def __init__(self, attempt: Attempt, refused: Callable[[pa.RecordBatch], Sequence[RowRefused]]) -> None:
        self._attempt = attempt
        self._refused = refused
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        refused = self._refused(batch)
        if refused:
            raise refused[0]
        self._rows += batch.num_rows

    def pre_commit(self) -> Committable | None:
        if self._rows == 0:
            return None
        digest = committable_digest(self._attempt, f"rows:{self._rows}")
        return Committable(attempt=self._attempt, rows=self._rows, digest=digest)

    def abort(self) -> None:
        pass
