"""A broker with Kafka's answers, and the sink that lives with them.

The answers are those of the transaction coordinator to EndTxn at version 4 and below (Apache Kafka,
`TransactionCoordinator.scala`): a transaction that is gone and one that was committed long ago may look the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

import msgspec

from tests.simulator.processes import Actor, Process
from tests.simulator.slots import Lease, Place
from tests.world.disk import Disk
from tests.world.engine import TaskFailed
from tests.world.rows import Row
from tests.world.sinks import BaseSink, Fences, Rows, Show, position_of
from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import Answer, Attempt, Committable, Evidence, Outcome, Position, SinkIdentity


class Reply(Enum):
    """What a coordinator answers to EndTxn(commit)."""

    NONE = "NONE"
    FENCED = "PRODUCER_FENCED"
    NO_MAPPING = "INVALID_PRODUCER_ID_MAPPING"
    INVALID_STATE = "INVALID_TXN_STATE"


class IdState(Enum):
    """How the newest transaction of a transactional id stands."""

    EMPTY = "empty"
    ONGOING = "ongoing"
    COMMITTED = "committed"


@dataclass(slots=True)
class TransactionalId:
    """A transactional id at its coordinator. `producer` is the producer id and the producer epoch in one number."""

    producer: int
    state: IdState = IdState.EMPTY
    attempt: Attempt | None = None
    written: list[Record] | None = None
    evidence: Committable | None = None


@dataclass(slots=True)
class Record:
    """One batch of rows in a topic: `committed` is None while its transaction is open."""

    rows: Rows
    committed: bool | None = None


_EPOCHS = 1_000
"""Producer epochs of one producer id in its number."""


class Broker:
    """Transactional ids, topics (one per sink), consumer groups (one per transactional id)."""

    def __init__(self, show: Callable[[Attempt, Rows], None]) -> None:
        self.ids: dict[str, TransactionalId] = {}
        self.topics: dict[tuple[str, str], list[Record]] = {}
        self.groups: dict[str, Committable] = {}
        self.era = 0
        self._show = show
        self._producers = 0

    def init_producer(self, name: str) -> int:
        """InitProducerId: aborts what is open, and fences every older producer of this id."""
        known = self.ids.get(name)
        if known is None:
            self._producers += 1
            known = self.ids[name] = TransactionalId(self._producers * _EPOCHS)
        self._abort(known)
        known.producer += 1
        return known.producer

    def produce(self, name: str, producer: int, attempt: Attempt, rows: Rows) -> None:
        """Write into the open transaction of this producer; the first write opens it."""
        known = self._of(name, producer)
        if known.state is not IdState.ONGOING:
            known.state, known.written, known.evidence = IdState.ONGOING, [], None
        known.attempt = attempt
        record = Record(rows)
        self.topics.setdefault((attempt.sink.query, attempt.sink.sink), []).append(record)
        if known.written is not None:
            known.written.append(record)

    def send_evidence(self, name: str, producer: int, committable: Committable) -> None:
        """Offsets of the id's own group, as part of the transaction; where none is open, this opens one."""
        known = self._of(name, producer)
        if known.state is not IdState.ONGOING:
            known.state, known.written = IdState.ONGOING, []
        known.attempt, known.evidence = committable.attempt, committable

    def holds_rows(self, name: str, producer: int) -> bool:
        """DescribeTransactions: whether the open transaction has the partition that was written."""
        return bool(self._of(name, producer).written)

    def end_transaction(self, name: str, producer: int) -> Reply:
        """EndTxn(commit)."""
        known = self.ids.get(name)
        if known is None or known.producer // _EPOCHS != producer // _EPOCHS:
            return Reply.NO_MAPPING
        if known.producer != producer:
            return Reply.FENCED
        match known.state:
            case IdState.EMPTY:
                return Reply.INVALID_STATE
            case IdState.COMMITTED:
                return Reply.NONE
            case IdState.ONGOING:
                self._commit(name, known)
                return Reply.NONE

    def open_attempts(self) -> list[tuple[str, Attempt]]:
        """Every open transaction with its transactional id."""
        return [(name, known.attempt) for name, known in self.ids.items() if known.attempt is not None]

    def time_out(self) -> None:
        """The coordinator aborts what has been open for too long, and fences its producer."""
        for known in self.ids.values():
            if known.state is IdState.ONGOING:
                self._abort(known)
                known.producer += 1

    def abort_one(self, number: int) -> bool:
        """Somebody aborts an open transaction by hand: its producer is not fenced."""
        ongoing = [known for known in self.ids.values() if known.state is IdState.ONGOING]
        if ongoing:
            self._abort(ongoing[number % len(ongoing)])
        return bool(ongoing)

    def expire_ids(self) -> None:
        """Ids without an open transaction are forgotten; used again, they get another producer id."""
        self.ids = {name: known for name, known in self.ids.items() if known.state is IdState.ONGOING}

    def expire_groups(self) -> None:
        self.groups.clear()
        self.era += 1

    def blocked(self) -> list[str]:
        """The topics whose read_committed readers wait behind an open transaction."""
        return [f"{sink} of {query}" for (query, sink), log in self.topics.items() if any(map(_is_open, log))]

    def _commit(self, name: str, known: TransactionalId) -> None:
        for record in known.written or ():
            record.committed = True
            if known.attempt is not None:
                self._show(known.attempt, record.rows)
        if known.evidence is not None:
            self.groups[name] = known.evidence
        known.state, known.attempt = IdState.COMMITTED, None

    def _abort(self, known: TransactionalId) -> None:
        if known.state is IdState.ONGOING:
            for record in known.written or ():
                record.committed = False
        known.state, known.attempt, known.written, known.evidence = IdState.EMPTY, None, None, None

    def _of(self, name: str, producer: int) -> TransactionalId:
        known = self.ids.get(name)
        if known is None or known.producer != producer:
            raise TaskFailed
        return known


def _is_open(record: Record) -> bool:
    return record.committed is None


class SlottedSink(BaseSink):
    """Kafka-like: an open transaction per attempt, ended by the driver; evidence in the transaction's own group."""

    def __init__(self, identity: SinkIdentity, disk: Disk, show: Show, *, one_run: bool, broker: Broker) -> None:
        super().__init__(identity, disk, show, one_run=one_run)
        self.broker = broker
        self._leases: dict[Attempt, Lease] = {}

    # --- in the tasks --------------------------------------------------------------------------------------

    def open(self, attempt: Attempt, place: Place, worker: Process, task: Actor | None, finished: int) -> Lease:
        """A transactional id for this attempt alone, with a producer that fences all before it."""
        lease = place.take(attempt, worker, task, finished)
        if lease.producer is None:
            lease.producer = self.open_producer(lease.name)
        self._leases[attempt] = lease
        return lease

    def open_producer(self, name: str) -> int:
        """For one attempt alone: an identity is never used again."""
        return self.broker.init_producer(name)

    def write(self, attempt: Attempt, rows: Rows, lease: Lease) -> None:
        self.broker.produce(lease.name, lease.producer or 0, attempt, rows)

    def prepare(self, attempt: Attempt, rows: Rows, handle: int) -> Committable:
        """Journal and evidence, then the slot's state file; only then may the task return."""
        lease = self._leases.pop(attempt)
        committable = self._committable(attempt, rows, self._keep(attempt, rows), 0)
        names = {"id": lease.name, "producer": str(lease.producer), "era": str(self.broker.era)}
        committable = msgspec.structs.replace(committable, handle=names)
        self.broker.send_evidence(lease.name, lease.producer or 0, committable)
        if not self.broker.holds_rows(lease.name, lease.producer or 0):
            raise TaskFailed  # aborted after the write, and opened again by the evidence
        lease.note_use(attempt)
        return committable

    # --- on the driver -------------------------------------------------------------------------------------

    def commit(self, committables: Sequence[Committable]) -> list[Answer]:
        return [self.end_transaction(committable) for committable in committables]

    def commit_half(self, committable: Committable) -> None:
        self.end_transaction(committable)

    def end_transaction(self, committable: Committable) -> Answer:
        """FENCED, INVALID_TXN_STATE and a forgotten id say nothing of this transaction: the look decides."""
        reply = self.broker.end_transaction(_id(committable), int(committable.handle["producer"]))
        if reply is Reply.NONE:
            return Answer(outcome=Outcome.COMMITTED)
        return Answer(outcome=Outcome.LOST, detail=reply.value)

    def evidence(self, committable: Committable) -> Evidence:
        """By equality alone. What is absent may have expired since the transaction was prepared."""
        standing = self.broker.groups.get(_id(committable))
        if standing == committable:
            return Evidence.PRESENT
        if standing is not None and _at(standing) == _at(committable):
            return Evidence.OTHER
        return Evidence.ABSENT if str(self.broker.era) == committable.handle["era"] else Evidence.UNKNOWN

    def fence(self, committable: Committable, fences: Fences) -> None:
        fences[_id(committable)] = self.broker.init_producer(_id(committable))

    def redo(self, committable: Committable, fences: Fences) -> Answer:
        """Written by the producer that the fence opened, under the committable's own name."""
        name = _id(committable)
        known = self.broker.ids.get(name)
        if known is None or fences.get(name) != known.producer:
            return Answer(outcome=Outcome.RETRY, detail="fenced by another driver")
        rows = self._kept(committable.attempt)
        if rows is None:
            raise journal_gone(committable)
        self.broker.produce(name, known.producer, committable.attempt, rows)
        self.broker.send_evidence(name, known.producer, committable)
        self.broker.end_transaction(name, known.producer)
        return Answer(outcome=Outcome.COMMITTED)

    def pending(self) -> list[str]:
        """Of this query and sink alone, by the whole name: one query's uid is the beginning of another's."""
        return list(self._open())

    def abort(self, transactions: Sequence[str]) -> None:
        """Those that are still the same: an id may have begun another transaction since it was listed."""
        for transaction, (name, attempt) in self._open().items():
            if transaction in transactions:
                self._abort_one(name, attempt)

    def position(self) -> Position | None:
        mine = [
            each for each in self.broker.groups.values() if _whose(each) == (self.identity.query, self.identity.sink)
        ]
        if not mine:
            return None
        newest = max(map(_at, mine))
        return position_of(self.identity, newest, [each for each in mine if _at(each) == newest])

    def visible(self) -> list[Row]:
        log = self.broker.topics.get((self.identity.query, self.identity.sink), [])
        return [row for record in log if record.committed for row in record.rows]

    def leftovers(self) -> list[str]:
        return [*super().leftovers(), *(f"open transaction {name}" for name in self.pending())]

    def _open(self) -> dict[str, tuple[str, Attempt]]:
        mine = (self.identity.query, self.identity.sink)
        return {
            f"{name}@{self.broker.ids[name].producer}": (name, attempt)
            for name, attempt in self.broker.open_attempts()
            if (attempt.sink.query, attempt.sink.sink) == mine
        }

    def _abort_one(self, name: str, attempt: Attempt) -> None:
        self.broker.init_producer(name)


def _id(committable: Committable) -> str:
    return committable.handle["id"]


def _at(committable: Committable) -> tuple[int, int]:
    return committable.attempt.sink.generation, committable.attempt.epoch


def _whose(committable: Committable) -> tuple[str, str]:
    return committable.attempt.sink.query, committable.attempt.sink.sink


def journal_gone(committable: Committable) -> TidegateError:
    """What a redo raises when the rows are gone."""
    return TidegateError(
        Code.TRANSACTION_LOST,
        expected="a journal",
        found="no file",
        where=committable.attempt.name,
        next_step="put the file back from a copy",
    )
