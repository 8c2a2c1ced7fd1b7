"""Three sinks with the answers and traps of real ones: staged (SQLite), Kafka, files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from tests.world.disk import ABSENT, Disk
from tests.world.engine import Reason, SparkStopped
from tests.world.rows import Row
from tidegate.core.errors import Code, TidegateError
from tidegate.core.ledger import Query
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

Rows: TypeAlias = tuple[Row, ...]
Show: TypeAlias = Callable[[str, int, Rows], None]
"""Told when rows become visible: sink, epoch, rows."""
Fences: TypeAlias = dict[str, int]
"""The producer epochs that one driver's own fences opened, by transactional id."""


class SimSink(Protocol):
    """`TwoPhaseSink` as the world calls it. Where a method takes `fences` they are the calling driver's."""

    identity: SinkIdentity

    def begin(self, attempt: Attempt) -> int: ...
    def prepare(self, attempt: Attempt, rows: Rows, handle: int) -> Committable: ...
    def commit(self, committables: Sequence[Committable]) -> list[Answer]: ...
    def commit_half(self, committable: Committable) -> None:
        """What a commit that dies after its first transaction has done."""
        ...

    def evidence(self, committable: Committable) -> Evidence: ...
    def fence(self, committable: Committable, fences: Fences) -> None: ...
    def redo(self, committable: Committable, fences: Fences) -> Answer: ...
    def pending(self) -> list[str]: ...
    def abort(self, transactions: Sequence[str]) -> None: ...
    def position(self) -> Position | None: ...
    def clean(self, finished_through: int) -> None: ...
    def discard(self, from_epoch: int) -> None: ...
    def time_out(self) -> None: ...
    def visible(self) -> list[Row]: ...
    def leftovers(self) -> list[str]:
        """What is open, staged or kept for a redo."""
        ...


def open_sinks(query: Query, disk: Disk, show: Show) -> list[SimSink]:
    """The sinks that a query's sink uids name by their first letters."""
    kinds: dict[str, type[StagedSink | KafkaSink | FilesSink]] = {"s": StagedSink, "k": KafkaSink, "f": FilesSink}
    return [kinds[uid[0]](query.sink(uid), disk, show, one_run=query.local_lease) for uid in query.sinks]


class BaseSink:
    """What all have in common: no open transactions, journals in a folder per generation and epoch."""

    def __init__(self, identity: SinkIdentity, disk: Disk, show: Show, *, one_run: bool) -> None:
        self.identity = identity
        self._disk = disk
        self._show = show
        self._one_run = one_run
        self._folder = f"sink/{identity.sink}"

    def begin(self, attempt: Attempt) -> int:
        return 0

    def commit_half(self, committable: Committable) -> None:
        """Nothing: the commit is one transaction."""

    def fence(self, committable: Committable, fences: Fences) -> None:
        """Nothing: a commit is atomic with its evidence."""

    def redo(self, committable: Committable, fences: Fences) -> Answer:
        raise NotImplementedError(f"{self.identity.sink} keeps no journal")

    def pending(self) -> list[str]:
        return []

    def abort(self, transactions: Sequence[str]) -> None:
        """Nothing: the stage is the journal."""

    def clean(self, finished_through: int) -> None:
        self._remove(lambda epoch: epoch <= finished_through)

    def discard(self, from_epoch: int) -> None:
        self._remove(lambda epoch: epoch >= from_epoch)

    def time_out(self) -> None:
        """Nothing: what is staged has no timeout."""

    def leftovers(self) -> list[str]:
        return self._disk.folders(f"{self._folder}/stage/")

    def _stage(self, epoch: int) -> str:
        return f"{self._folder}/stage/{self.identity.generation}/{epoch}"

    def _remove(self, concerns: Callable[[int], bool]) -> None:
        for folder in self._disk.folders(f"{self._folder}/stage/{self.identity.generation}/"):
            if concerns(int(folder.rpartition("/")[2])):
                self._disk.remove([f"{folder}/{name}" for name in self._disk.names(folder)])

    def _keep(self, attempt: Attempt, rows: Rows) -> str:
        name = f"{self._stage(attempt.epoch)}/{attempt.name}"
        self._disk.put(name, rows)
        return name

    def _kept(self, attempt: Attempt) -> Rows | None:
        rows = self._disk.read(f"{self._stage(attempt.epoch)}/{attempt.name}")
        return rows if isinstance(rows, tuple) else None  # pyright: ignore[reportUnknownVariableType]

    def _committable(self, attempt: Attempt, rows: Rows, journal: str | None, producer_epoch: int) -> Committable:
        checksum = str(rows)
        return Committable(
            attempt=attempt,
            rows=len(rows),
            digest=committable_digest(attempt, checksum),
            handle={"producer epoch": str(producer_epoch)},
            journal=None
            if journal is None
            else JournalRef(name=journal, rows=len(rows), size_bytes=len(checksum), checksum=checksum),
        )


def position_of(identity: SinkIdentity, at: tuple[int, int], committables: Sequence[Committable]) -> Position:
    """The evidence of the transactions `committables`, all of one generation and epoch (`at`)."""
    return Position(job_id=identity.job_id, generation=at[0], epoch=at[1], digest=epoch_digest(committables))


class Table:
    """The target of a staged sink: its rows, and a ledger row per generation and epoch."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.ledger: dict[tuple[int, int], tuple[Committable, ...]] = {}


class StagedSink(BaseSink):
    """SQLite-like: a stage file per task, which is the journal; one transaction per epoch with its ledger row."""

    def __init__(
        self, identity: SinkIdentity, disk: Disk, show: Show, *, one_run: bool, table: Table | None = None
    ) -> None:
        super().__init__(identity, disk, show, one_run=one_run)
        self.table = table or Table()

    def prepare(self, attempt: Attempt, rows: Rows, handle: int) -> Committable:
        self._keep(attempt, rows)
        return self._committable(attempt, rows, None, handle)

    def commit(self, committables: Sequence[Committable]) -> list[Answer]:
        key = self._key(committables[0])
        if self.table.ledger.get(key) == tuple(committables):
            return [Answer(outcome=Outcome.ALREADY) for _ in committables]
        stages = [self._kept(committable.attempt) for committable in committables]
        whole = [stage for stage in stages if stage is not None]
        if key in self.table.ledger or len(whole) < len(stages):
            return [Answer(outcome=Outcome.LOST, detail="not staged, or another ledger row") for _ in committables]
        rows = tuple(row for stage in whole for row in stage)
        self._show(self.identity.sink, key[1], rows)
        self.table.rows.extend(rows)
        self.table.ledger[key] = tuple(committables)
        return [Answer(outcome=Outcome.COMMITTED) for _ in committables]

    def evidence(self, committable: Committable) -> Evidence:
        standing = self.table.ledger.get(self._key(committable))
        if standing is None:
            return Evidence.ABSENT
        return Evidence.PRESENT if committable in standing else Evidence.OTHER

    def position(self) -> Position | None:
        if not self.table.ledger:
            return None
        newest = max(self.table.ledger)
        return position_of(self.identity, newest, self.table.ledger[newest])

    def visible(self) -> list[Row]:
        return self.table.rows

    def _key(self, committable: Committable) -> tuple[int, int]:
        return self.identity.generation, committable.attempt.epoch


@dataclass(slots=True)
class _Producer:
    """A transactional id at the coordinator."""

    epoch: int = 0
    attempt: Attempt | None = None  # of the open transaction
    rows: Rows = ()
    committed: bool = False  # the transaction of this producer epoch


class KafkaSink(BaseSink):
    """Kafka-like: an open transaction per attempt, EndTxn by another process, evidence inside the transaction.

    A transactional id serves every second epoch of a task (turns); without the lease each run has its own. An
    identity (id, producer epoch) serves one attempt.
    """

    def __init__(self, identity: SinkIdentity, disk: Disk, show: Show, *, one_run: bool) -> None:
        super().__init__(identity, disk, show, one_run=one_run)
        self.log: list[Row] = []
        self.producers: dict[str, _Producer] = {}
        self.groups: dict[str, Committable] = {}

    def begin(self, attempt: Attempt) -> int:
        producer = self._init_producer(self._id(attempt))
        producer.attempt = attempt
        return producer.epoch

    def prepare(self, attempt: Attempt, rows: Rows, handle: int) -> Committable:
        producer = self.producers[self._id(attempt)]
        if producer.epoch != handle or producer.attempt != attempt:
            raise SparkStopped(Reason.TASK_FAILED, "the producer is fenced")
        producer.rows = rows
        return self._committable(attempt, rows, self._keep(attempt, rows), handle)

    def commit(self, committables: Sequence[Committable]) -> list[Answer]:
        return [self.end_transaction(committable) for committable in committables]

    def commit_half(self, committable: Committable) -> None:
        self.end_transaction(committable)

    def end_transaction(self, committable: Committable) -> Answer:
        """EndTxn(commit) at version <= 4. FENCED and a missing transaction are ambiguous: LOST sends to the look."""
        producer = self.producers[self._id(committable.attempt)]
        if producer.epoch != int(committable.handle["producer epoch"]):
            return Answer(outcome=Outcome.LOST, detail="PRODUCER_FENCED")
        if producer.committed:
            return Answer(outcome=Outcome.COMMITTED)
        if producer.attempt is None:
            return Answer(outcome=Outcome.LOST, detail="INVALID_TXN_STATE")
        self._publish(committable, producer.rows)
        return Answer(outcome=Outcome.COMMITTED)

    def evidence(self, committable: Committable) -> Evidence:
        """By equality alone: an id that has served a later epoch proves nothing about this one."""
        standing = self.groups.get(self._id(committable.attempt))
        if standing == committable:
            return Evidence.PRESENT
        same = standing is not None and standing.attempt.epoch == committable.attempt.epoch
        return Evidence.OTHER if same else Evidence.ABSENT

    def fence(self, committable: Committable, fences: Fences) -> None:
        name = self._id(committable.attempt)
        fences[name] = self._init_producer(name).epoch

    def redo(self, committable: Committable, fences: Fences) -> Answer:
        name = self._id(committable.attempt)
        if fences.get(name) != self.producers[name].epoch:
            return Answer(outcome=Outcome.RETRY, detail="fenced by another driver")
        rows = self._kept(committable.attempt)
        if rows is None:
            raise TidegateError(
                Code.TRANSACTION_LOST,
                expected="a journal",
                found="no file",
                where=committable.attempt.name,
                next_step="put the file back from a copy",
            )
        self._publish(committable, rows)
        return Answer(outcome=Outcome.COMMITTED)

    def pending(self) -> list[str]:
        return [f"{name}@{each.epoch}" for name, each in self.producers.items() if each.attempt is not None]

    def abort(self, transactions: Sequence[str]) -> None:
        for transaction in set(transactions) & set(self.pending()):
            self._init_producer(transaction.rpartition("@")[0])

    def time_out(self) -> None:
        self.abort(self.pending())

    def position(self) -> Position | None:
        newest = max((standing.attempt.epoch for standing in self.groups.values()), default=None)
        if newest is None:
            return None
        mine = [standing for standing in self.groups.values() if standing.attempt.epoch == newest]
        return position_of(self.identity, (self.identity.generation, newest), mine)

    def visible(self) -> list[Row]:
        return self.log

    def leftovers(self) -> list[str]:
        return [*super().leftovers(), *(f"open transaction {name}" for name in self.pending())]

    def _id(self, attempt: Attempt) -> str:
        place = "" if self._one_run else f".{attempt.run}"
        return f"{attempt.task}.{attempt.epoch % 2}{place}"

    def _init_producer(self, name: str) -> _Producer:
        """InitProducerId: aborts what is open and fences every older handle."""
        producer = self.producers.setdefault(name, _Producer())
        producer.epoch += 1
        producer.attempt = None
        producer.committed = False
        return producer

    def _publish(self, committable: Committable, rows: Rows) -> None:
        name = self._id(committable.attempt)
        self.producers[name].attempt = None
        self.producers[name].committed = True
        self._show(self.identity.sink, committable.attempt.epoch, rows)
        self.log.extend(rows)
        self.groups[name] = committable


class FilesSink(BaseSink):
    """Files: staged in a folder per epoch, renamed to become visible.

    Evidence: the staged file is gone while its folder is there; the rename alone removes it.
    """

    def begin(self, attempt: Attempt) -> int:
        self._disk.put_if_absent(f"{self._stage(attempt.epoch)}/{_FOLDER}", b"")
        return 0

    def prepare(self, attempt: Attempt, rows: Rows, handle: int) -> Committable:
        self.begin(attempt)
        self._keep(attempt, rows)
        return self._committable(attempt, rows, None, handle)

    def commit(self, committables: Sequence[Committable]) -> list[Answer]:
        answers = [self._rename(committable) for committable in committables]
        self._disk.sync_renames()
        epoch = committables[0].attempt.epoch
        if all(answer.outcome is not Outcome.UNKNOWN for answer in answers):
            standing, at = self.position(), (self.identity.generation, epoch)
            if standing is None or (standing.generation, standing.epoch) < at:
                self._disk.put(f"{self._folder}/position", position_of(self.identity, at, committables))
        return answers

    def commit_half(self, committable: Committable) -> None:
        self._rename(committable)

    def evidence(self, committable: Committable) -> Evidence:
        folder = self._disk.names(self._stage(committable.attempt.epoch))
        if committable.attempt.name in folder:
            return Evidence.ABSENT
        return Evidence.PRESENT if _FOLDER in folder else Evidence.UNKNOWN

    def position(self) -> Position | None:
        standing = self._disk.read(f"{self._folder}/position")
        return standing if isinstance(standing, Position) else None

    def visible(self) -> list[Row]:
        files = sorted(self._disk.names(self._final), key=_place)
        found: list[Row] = []
        for name in files:
            rows = self._disk.read(f"{self._final}/{name}")
            if isinstance(rows, tuple):
                found.extend(rows)  # pyright: ignore[reportUnknownArgumentType]
        return found

    @property
    def _final(self) -> str:
        return f"{self._folder}/final"

    def _rename(self, committable: Committable) -> Answer:
        attempt = committable.attempt
        rows = self._kept(attempt)
        if rows is not None:
            self._show(self.identity.sink, attempt.epoch, rows)
            new = f"{self._final}/{self.identity.generation}-{attempt.epoch}-{attempt.name}"
            self._disk.rename(f"{self._stage(attempt.epoch)}/{attempt.name}", new)
            return Answer(outcome=Outcome.COMMITTED)
        if self._disk.read(f"{self._stage(attempt.epoch)}/{_FOLDER}") is ABSENT:
            return Answer(outcome=Outcome.UNKNOWN, detail="the staging folder is gone")
        return Answer(outcome=Outcome.ALREADY)


def _place(name: str) -> tuple[int, int]:
    generation, epoch, _ = name.split("-", 2)
    return int(generation), int(epoch)


_FOLDER = ".folder"
