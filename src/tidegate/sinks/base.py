"""The contract between a sink and the protocol: two phases, as in Flink's `TwoPhaseCommittingSink`.

In a task:    begin(attempt) -> transaction; transaction.write(batch)...; transaction.pre_commit() -> committable
On a driver:  commit(committables), after the epoch is decided; and what recovery asks.

A sink object is pickled to the tasks: what it holds must be settings only, never a connection. What only the driver
can use (`select`, `where`: Spark's Column does not pickle) is left out on the way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, ClassVar

from tidegate.core.errors import TidegateError
from tidegate.core.guarantees import Shows
from tidegate.core.health import Finding, warn
from tidegate.core.levels import Level, read_level
from tidegate.core.records import (
    Answer,
    Attempt,
    Committable,
    Evidence,
    JournalRef,
    Outcome,
    Position,
    SinkIdentity,
)
from tidegate.sinks.promises import Promise
from tidegate.sinks.refusals import not_one_of

if TYPE_CHECKING:  # not loaded by commands that only inspect a sink
    import pyarrow as pa

    from tidegate.sinks.rows import RowRefused


class JournalKeeper(Enum):
    """Where the rows of an epoch are kept until the epoch is done."""

    STAGE = "the sink's own stage is durable and readable: it is the journal"
    LEDGER = "the rows are kept in the checkpoint's ledger beside the transaction"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkPlan:
    """What a sink receives on the driver before a query starts.

    `schema`: the schema of the rows that the sink will receive. `mode`: Spark's output mode (append, update, complete).
    `local_master`: True if all tasks run on this machine. `read_journal`: opens the rows of a journal file.
    `interval_seconds`: the least time between two epochs (checkpointing.interval). `tasks`: how many tasks of an epoch
    may have rows, as far as it is known before; otherwise 1.
    """

    identity: SinkIdentity
    schema: pa.Schema
    mode: str
    local_master: bool
    read_journal: Callable[[JournalRef], Iterable[pa.RecordBatch]]
    interval_seconds: float = 0.0
    tasks: int = 1


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that is open in a target. `since`: when it began, in seconds since 1970, or None if the target does
    not report it. `mine`: False if another job, or an earlier start of this one, has left it open.
    """

    name: str
    since: float | None = None
    mine: bool = True


class Transaction(ABC):
    """The transaction of one attempt. Used by one task, in one thread, once."""

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None:
        """Take the rows of `batch` (the columns of this sink, at least one row). Nothing becomes visible, unless the
        sink declares `Shows.INSIDE`.

        Raises RowRefused with the first row that the sink refuses. In that case no row of `batch` is taken.
        """

    @abstractmethod
    def pre_commit(self) -> Committable | None:
        """Make everything durable, the evidence included. Nothing becomes visible (but for `Shows.INSIDE`).

        Returns the committable: all that another process needs for the commit. Returns None if no row came. The process
        may die at any time after this call; only `commit` decides.
        """

    @abstractmethod
    def abort(self) -> None:
        """Abort the transaction after a failure inside the task, before or after `pre_commit`.

        It is called only if the committable was not handed over. Raises nothing if the transaction is gone already.
        """


class TwoPhaseSink(ABC):
    """A sink that prepares rows in the tasks and makes them visible only by `commit`.

    After a crash, each driver-side method may be called again, any number of times, from another process.
    """

    journal: ClassVar[JournalKeeper] = JournalKeeper.LEDGER
    prepared_rows_have_their_place: ClassVar[bool] = False
    """True if prepared rows already have their place in the target's order (Kafka): then max_concurrent is 1."""
    levels: ClassVar[frozenset[Level]] = frozenset({Level.EXACTLY_ONCE, Level.AT_MOST_ONCE})
    """The delivery levels that the sink supports. AT_LEAST_ONCE needs `commit_straight`."""
    remembers: ClassVar[bool] = True
    """False if the target keeps no evidence over a restart (a console). `position` is then always None, which proves
    nothing about earlier commits.
    """
    evidence_expires: ClassVar[bool] = False
    """True if the target expires its evidence after some time (Kafka). A `position` of None then proves nothing; an
    evidence that is found does.
    """

    stays_in_job: ClassVar[bool] = False
    """True if the rows are for queries of the job itself (a channel). A restore does not ask for their evidence: these
    readers skip the rows of the timeline that it gives up.
    """

    shows: ClassVar[Shows] = Shows.ONCE
    """What readers see of an epoch that was interrupted by the death of the process. `Shows.AGAIN`: the target cannot
    tell which rows it has already shown. `Shows.INSIDE`: rows are visible as soon as a task writes them, and an epoch
    that runs again replaces them by key (an idempotent sink). `tidegate check` and `info` then report the sink as
    at-least-once.
    """

    promises: ClassVar[Sequence[Promise]] = ()
    """The rows of this class in docs/guarantees.md: what readers see, and what the target needs. One for each way to
    publish. Only the sinks of this package need it.
    """

    kind: ClassVar[str] = ""
    """The name of this class among the entry points `tidegate.sinks`. With a kind, the commands `tidegate check`, `txn`
    and `info` can open the sink without the job's program. Without one, only the program can. A subclass does not
    inherit it.
    """

    def __init__(
        self, uid: str, *, select: Sequence[object] | None = None, where: object = None, delivery: str | None = None
    ) -> None:
        """`select`: the columns of this sink, as names or Column expressions. `where`: a Column that selects rows.

        `delivery` overrides the job's `checkpointing.mode` for this sink: "exactly-once" or "at-least-once".
        """
        try:
            self.delivery = None if delivery is None else read_level(delivery)
        except ValueError:
            words = (level.value for level in Level)
            raise not_one_of("delivery", words, str(delivery), uid, instead=", or none") from None
        self.uid = uid
        self.select = select
        self.where = where

    def __getstate__(self) -> dict[str, object]:
        """The sink as the tasks receive it: its settings without Spark's expressions."""
        return {**self.__dict__, "select": None, "where": None}

    # --- opened without the program: only for a sink with a `kind` ---------------------------------------------

    def describe(self) -> Mapping[str, object]:
        """The values that `from_description` needs to open the same target: JSON values by name.

        They are written into *sinks.json* in the job's folder at every start, so they must not hold a secret. Leave out
        each option that may be a secret, and add its name to the list `left_out`. Commands request the value by
        `--option NAME=...`.
        """
        return {}

    @classmethod
    def from_description(
        cls, uid: str, described: Mapping[str, object], options: Mapping[str, str], delivery: str
    ) -> TwoPhaseSink:
        """Open the sink for all driver-side calls. No rows are written through it.

        `described`: the result of `describe`, possibly from an older release. `options`: a value for each name in
        `left_out`. `delivery`: the level that the job sets for the sink.
        """
        raise NotImplementedError(f"{cls.__name__} has a kind but no from_description")

    @classmethod
    def told(cls, described: Mapping[str, object]) -> str:
        """The target in a few words, for the lists that commands print."""
        return cls.__name__

    def probe(self, what: str, plan: SinkPlan) -> Sequence[Finding]:
        """The condition of the target, for `tidegate check`: a list of findings, each with `what` as its subject.

        Changes nothing. `plan` is the plan of a start, with an empty schema. Build each finding with `ok`, `warn` or
        `failed` of `tidegate.core.health`.
        """
        return [warn(what, "this sink has no check", "start the job")]

    def open_transactions(self, identity: SinkIdentity) -> Sequence[OpenTransaction]:
        """The transactions that `pending` names, and since when they are open; also those of other jobs that keep
        readers of this target waiting.
        """
        return [OpenTransaction(name) for name in self.pending(identity)]

    # --- before a query starts -----------------------------------------------------------------------------

    @abstractmethod
    def check(self, plan: SinkPlan) -> Sequence[TidegateError]:
        """All reasons against a start, as one list. Creates and changes nothing."""

    @abstractmethod
    def open(self, plan: SinkPlan) -> None:
        """Create missing parts of the target (table, folder, evidence table). Idempotent."""

    def journal_keeper(self) -> JournalKeeper:
        """`journal`. A class whose objects differ in it answers by their options."""
        return self.journal

    def places_rows(self) -> bool:
        """`prepared_rows_have_their_place`. A class whose objects differ in it answers by their options."""
        return self.prepared_rows_have_their_place

    @abstractmethod
    def position(self, identity: SinkIdentity) -> Position | None:
        """The newest evidence in the target for this (job name, query, sink), of any job id. None if there is none.

        If the target can tell, evidence that the same job id has left under another job name counts too: a restore can
        move a job to another name, and the driver under the old name must then not continue.

        Newest means the highest generation, then the highest epoch. `digest` is the `epoch_digest` of that epoch. The
        start compares the result with the ledger. It refuses evidence that is ahead, behind, or of another job.
        """

    def begin_run(self, identity: SinkIdentity, run: int, run_token: str) -> str | None:
        """Fence the earlier runs: from now on the target refuses their rows, of this generation and of older ones.

        Only for `Shows.INSIDE`; the commit of any other sink compares evidence. Called before the first epoch of a run,
        after the evidence was compared and the decided epochs of earlier runs are finished. Returns None. If the target
        has the fence of a later run, or of this run under another token (a copied checkpoint), nothing changes, and the
        result is that run in words; this run then ends.
        """
        return None

    # --- in a task -----------------------------------------------------------------------------------------

    def in_epoch(self, finished_through: int) -> TwoPhaseSink:
        """The object that writes this sink's rows in the tasks of an epoch. Epochs up to `finished_through` are
        finished.
        """
        return self

    def refused(self, batch: pa.RecordBatch) -> Sequence[RowRefused]:
        """The rows of `batch` with a value that the target cannot hold: at most one refusal for each row.

        Called in a task, with the rows that would go to `write`. `write` then receives the other rows.
        """
        return ()

    @abstractmethod
    def begin(self, attempt: Attempt) -> Transaction:
        """Open the transaction named `attempt.name`. Fences an older transaction of the same attempt."""

    # --- the commit phase, on a driver ---------------------------------------------------------------------

    @abstractmethod
    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        """Make the prepared transactions of one epoch visible. Returns one answer for each committable, in order.

        `committables` are all committables of the epoch for this sink, in any order of tasks, never a part of them.
        Idempotent: the answer is ALREADY if the transaction is committed already. Return only when the reported state
        survives a power loss, also if another process committed it and died. Answer UNKNOWN, and make nothing visible,
        for a second timeline (`Evidence.OTHER`) and for an epoch below one that is already committed.

        Do not answer RETRY after a failed sync: a second sync succeeds and proves nothing. Raise `SyncFailed`, as the
        sync functions in `tidegate.disk.durable` do. The driver then ends, and the next driver commits again. It must
        not only sync the files of the earlier process; it must write them again before it answers ALREADY.
        """

    def commit_straight(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        """Make prepared rows visible inside their epoch, for at-least-once. No evidence is stored or read.

        Rows of the same epoch that an earlier run has shown do not matter. After RETRY and UNKNOWN the call is repeated
        with the remaining committables; LOST fails the epoch. Return only when the reported state survives a power
        loss. Called only if `levels` has AT_LEAST_ONCE.
        """
        raise NotImplementedError(f"{type(self).__name__} is never at-least-once")

    @abstractmethod
    def evidence(self, committable: Committable) -> Evidence:
        """The evidence in the target for this committable. Compares digests for equality."""

    def fence(self, committable: Committable) -> None:
        """Make sure that no other process can still commit or write this transaction. Nothing to do if the commit is
        atomic with its evidence.
        """

    def redo(self, committable: Committable, batches: Iterable[pa.RecordBatch]) -> Answer:
        """Write a lost transaction again from its journal, under its own name, and commit it.

        Only for `JournalKeeper.LEDGER`; a stage that was the journal leaves nothing to write again. The default begins
        the attempt again (which fences an older transaction of it), looks at the evidence, writes, pre-commits and
        commits this committable alone.
        """
        transaction = self.begin(committable.attempt)
        if self.evidence(committable) is Evidence.PRESENT:
            transaction.abort()
            return _already("the evidence appeared while the transaction was fenced")
        for batch in batches:
            transaction.write(batch)
        again = transaction.pre_commit()
        if again is None or again.digest != committable.digest:
            return _unlike(committable, again)
        return self.commit([again])[0]

    # --- clean-up, on a driver -----------------------------------------------------------------------------

    def pending(self, identity: SinkIdentity) -> Sequence[str]:
        """The names of the transactions that are open in the target under exactly this identity (parsed, never by
        prefix).
        """
        return ()

    def abort(self, transactions: Sequence[str]) -> None:
        """Abort the transactions that `pending` returned, by fencing. Unknown names are no error. Never deletes a
        journal.
        """

    def clean(self, identity: SinkIdentity, finished_through: int) -> None:
        """Remove staged data of epochs at or below `finished_through`. Idempotent."""

    def discard(self, identity: SinkIdentity, from_epoch: int) -> int:
        """Remove the staged data of dead runs for the undecided epochs from `from_epoch` on. Returns the number of
        attempts. Idempotent.

        Called only while a lease proves that no other run is alive, and only after the prepared records of those epochs
        are gone.
        """
        return 0

    def forget(self, identity: SinkIdentity) -> None:
        """Remove the evidence of a job whose checkpoints are deleted, of every generation. Idempotent.

        Afterwards `position` returns None, so a job of the same name can begin again. Called when no process of the job
        runs and none of its transactions is open or staged. The default removes nothing; a later start is then refused
        if `position` reports the old job.
        """


def answer_all(committables: Sequence[Committable], outcome: Outcome, detail: str) -> list[Answer]:
    """The same answer for each committable."""
    return [Answer(outcome=outcome, detail=detail) for _ in committables]


def _already(detail: str) -> Answer:
    return Answer(outcome=Outcome.ALREADY, detail=detail)


def _unlike(committable: Committable, again: Committable | None) -> Answer:
    found = "no rows" if again is None else f"digest {again.digest[:12]}"
    return Answer(
        outcome=Outcome.UNKNOWN,
        detail=f"the journal gave {found}, the committable has digest {committable.digest[:12]}",
    )
