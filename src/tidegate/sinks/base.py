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

from tidegate.core.errors import Code, TidegateError
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

if TYPE_CHECKING:  # not loaded for who only asks a sink
    import pyarrow as pa

    from tidegate.sinks.rows import RowRefused


class JournalKeeper(Enum):
    """Who keeps the rows of an epoch until it is done."""

    STAGE = "the sink's own stage is durable and readable: it is the journal"
    LEDGER = "the rows are kept in the checkpoint's ledger beside the transaction"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkPlan:
    """What a sink is told on the driver before a query starts.

    `schema` is that of the rows the sink will get; `mode` Spark's output mode (append, update, complete);
    `local_master` whether every task runs on this machine; `read_journal` opens the rows of a journal file;
    `interval_seconds` is the least time between two epochs (checkpointing.interval).
    """

    identity: SinkIdentity
    schema: pa.Schema
    mode: str
    local_master: bool
    read_journal: Callable[[JournalRef], Iterable[pa.RecordBatch]]
    interval_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that is open in a target. `since`: when it was begun, seconds since 1970, where the target tells;
    `mine`: False where another job, or an older life of this one, has left it open."""

    name: str
    since: float | None = None
    mine: bool = True


class Transaction(ABC):
    """The transaction of one attempt. Used by one task, in one thread, once."""

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None:
        """Take the rows of `batch` (the sink's columns, at least one row). Nothing becomes visible.

        Raises RowRefused, the first of the sink's `refused`, and has then taken no row of `batch`.
        """

    @abstractmethod
    def pre_commit(self) -> Committable | None:
        """Make everything durable, the evidence included, and still nothing visible.

        Returns what any other process needs to commit, or None when no row came. A process may die at any time
        after this; only `commit` decides.
        """

    @abstractmethod
    def abort(self) -> None:
        """Give the transaction up after a failure inside the task, before or after `pre_commit`.

        Only while its committable has been given to nobody. Never raises for what is gone already.
        """


class TwoPhaseSink(ABC):
    """A sink that prepares in the tasks and becomes visible only through `commit`.

    Every driver-side call may come again after a crash, any number of times, from another process.
    """

    journal: ClassVar[JournalKeeper] = JournalKeeper.LEDGER
    prepared_rows_have_their_place: ClassVar[bool] = False
    """True where prepared rows already stand in the target's order (Kafka): then max_concurrent is 1."""
    levels: ClassVar[frozenset[Level]] = frozenset({Level.EXACTLY_ONCE, Level.AT_MOST_ONCE})
    """The delivery levels it can give. AT_LEAST_ONCE needs `commit_straight`."""
    remembers: ClassVar[bool] = True
    """False where the target keeps no evidence over a restart (a console): `position` is then always None, and
    that says nothing about what was committed."""
    evidence_expires: ClassVar[bool] = False
    """True where evidence goes with time (Kafka): that `position` finds none says nothing then, what it finds does."""

    shows: ClassVar[Shows] = Shows.ONCE
    """What becomes of an epoch that was being committed when the process died. `Shows.AGAIN` where the target cannot
    tell what it has already shown: then `tidegate check` and `info` call the sink at-least-once."""

    kind: ClassVar[str] = ""
    """The name of this very class among the entry points `tidegate.sinks`. With it, commands open the sink without the
    job's program: `tidegate check`, `txn`, `info`. Without it, and for a subclass that does not say its own, only the
    program can."""

    def __init__(
        self, uid: str, *, select: Sequence[object] | None = None, where: object = None, delivery: str | None = None
    ) -> None:
        """`select`: the columns of this sink, as names or Column expressions; `where`: a Column that chooses rows.

        `delivery` overrides the job's `checkpointing.mode` for this sink: "exactly-once" or "at-least-once".
        """
        try:
            self.delivery = None if delivery is None else read_level(delivery)
        except ValueError:
            raise TidegateError(
                Code.OPTION_UNKNOWN,
                expected=f"delivery one of {', '.join(repr(level.value) for level in Level)}, or none",
                found=f"delivery={delivery!r}",
                where=f"sink {uid!r}",
            ) from None
        self.uid = uid
        self.select = select
        self.where = where

    def __getstate__(self) -> dict[str, object]:
        """What goes to the tasks: the settings without Spark's expressions."""
        return {**self.__dict__, "select": None, "where": None}

    # --- opened without the program, where `kind` is said ----------------------------------------------------

    def describe(self) -> Mapping[str, object]:
        """What `from_description` needs to open the same target: values of JSON by name.

        It is written into *sinks.json* in the job's folder at every start, so it holds no secret. An option that may be
        one is left out, and its name stands in the list `left_out`: a command asks for it with `--option NAME=...`.
        """
        return {}

    @classmethod
    def from_description(
        cls, uid: str, described: Mapping[str, object], options: Mapping[str, str], delivery: str
    ) -> TwoPhaseSink:
        """The sink, for everything that a driver asks of it; no rows are written through it.

        `described` is what `describe` returned, possibly in an older release; `options` has a value for each name in
        `left_out`; `delivery` is the level that the job gave the sink.
        """
        raise NotImplementedError(f"{cls.__name__} has a kind and no from_description")

    @classmethod
    def told(cls, described: Mapping[str, object]) -> str:
        """The target in a few words, for the lists of commands."""
        return cls.__name__

    def probe(self, what: str, plan: SinkPlan) -> Sequence[Finding]:
        """How the target is, for `tidegate check`: each with `what` as its subject. Changes nothing.

        `plan` is that of a start, with an empty schema. `tidegate.core.health` has `ok`, `warn` and `failed`.
        """
        return [warn(what, "nothing is known of how to look at it", "start the job")]

    def open_transactions(self, identity: SinkIdentity) -> Sequence[OpenTransaction]:
        """What `pending` names, and since when; also what others have left open where it keeps readers waiting."""
        return [OpenTransaction(name) for name in self.pending(identity)]

    # --- before a query starts -----------------------------------------------------------------------------

    @abstractmethod
    def check(self, plan: SinkPlan) -> Sequence[TidegateError]:
        """Everything that stands against a start, all at once. Creates and changes nothing."""

    @abstractmethod
    def open(self, plan: SinkPlan) -> None:
        """Create what is missing in the target (table, folder, evidence table); idempotent."""

    @abstractmethod
    def position(self, identity: SinkIdentity) -> Position | None:
        """The newest evidence in the target for this (job name, query, sink), of whatever job id.

        Also what the same job id has left under another job name, where the target can tell: a claimed savepoint may
        move a job to another name, and its old driver must not go on then.

        Newest: the highest generation, in it the highest epoch. `digest` is that epoch's `epoch_digest`. Compared
        at start with the ledger: ahead, behind or of another job is refused. None when there is none.
        """

    # --- in a task -----------------------------------------------------------------------------------------

    def in_epoch(self, finished_through: int) -> TwoPhaseSink:
        """What goes to the tasks of an epoch in place of this sink; epochs up to `finished_through` are finished."""
        return self

    def refused(self, batch: pa.RecordBatch) -> Sequence[RowRefused]:
        """The rows of `batch` that the target cannot hold because of a value, at most one refusal for each row.

        Called in a task, with the rows that `write` would get. The rows that are left out here are taken by `write`.
        """
        return ()

    @abstractmethod
    def begin(self, attempt: Attempt) -> Transaction:
        """Open the transaction named `attempt.name`. Fences an older transaction of the same attempt."""

    # --- the commit phase, on a driver ---------------------------------------------------------------------

    @abstractmethod
    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        """Make one epoch's prepared transactions visible; one answer per committable, in order.

        `committables` are all that the epoch has for this sink, in any order of tasks; never a part of them.
        Idempotent: what is committed already answers ALREADY. Returns only when what it reports survives a power
        loss, also when another process committed it and died. A second timeline (`Evidence.OTHER`) and an epoch
        below one that is already committed answer UNKNOWN, and nothing becomes visible.

        A sync that failed is no RETRY: a second one succeeds and proves nothing. Raise `SyncFailed`, which the syncs in
        `tidegate.disk.durable` do. The driver ends, and the next one asks again: what it finds and did not write
        itself must be written again, not only synced, before it answers ALREADY.
        """

    def commit_straight(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        """Make prepared rows visible inside their epoch, for at-least-once: no evidence is kept or asked for.

        What an older run showed for the same epoch does not matter. RETRY and UNKNOWN are tried again, with the
        committables that were not taken; LOST fails the epoch. Returns only when what it reports survives a power
        loss. Called only where `levels` has AT_LEAST_ONCE.
        """
        raise NotImplementedError(f"{type(self).__name__} is never at-least-once")

    @abstractmethod
    def evidence(self, committable: Committable) -> Evidence:
        """What the target itself proves about this committable; by equality of digests."""

    def fence(self, committable: Committable) -> None:
        """Make sure that nobody else can still commit or write this transaction. Nothing to do where commit is
        atomic with its evidence."""

    def redo(self, committable: Committable, batches: Iterable[pa.RecordBatch]) -> Answer:
        """Write a lost transaction again from its journal, under its own name, and commit it.

        Only for `JournalKeeper.LEDGER`: where the stage was the journal there is nothing to write again. The
        default begins the attempt again (which fences an older transaction of it), looks at the evidence, writes,
        pre-commits and commits this committable alone.
        """
        transaction = self.begin(committable.attempt)
        if self.evidence(committable) is Evidence.PRESENT:
            transaction.abort()
            return _already("the evidence came while the transaction was fenced")
        for batch in batches:
            transaction.write(batch)
        again = transaction.pre_commit()
        if again is None or again.digest != committable.digest:
            return _unlike(committable, again)
        return self.commit([again])[0]

    # --- clean-up, on a driver -----------------------------------------------------------------------------

    def pending(self, identity: SinkIdentity) -> Sequence[str]:
        """The names of the transactions open in the target under exactly this identity (parsed, never by prefix)."""
        return ()

    def abort(self, transactions: Sequence[str]) -> None:
        """Abort what `pending` named, by fencing; unknown names are no error. Never deletes a journal."""

    def clean(self, identity: SinkIdentity, finished_through: int) -> None:
        """Remove what is staged for epochs at or below `finished_through`. Idempotent."""

    def discard(self, identity: SinkIdentity, from_epoch: int) -> int:
        """Remove what dead runs staged for the undecided epochs from `from_epoch` on; how many attempts. Idempotent.

        Called only while a lease proves that no other run is alive, and only after the prepared records of those
        epochs are gone.
        """
        return 0

    def forget(self, identity: SinkIdentity) -> None:
        """The job with this id is given up, with its checkpoints: remove its evidence, of every generation. Idempotent.

        Afterwards `position` knows nothing of it, so that a job of the same name can begin anew. Called when nothing
        of the job runs and nothing of it is open or staged. By default nothing goes: a later start is then refused
        where `position` reports the old job.
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
