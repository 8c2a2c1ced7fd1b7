"""The open transactions of a sink, as their coordinators describe them (KIP-664)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from tidegate.core.records import SinkIdentity
from tidegate.kafka.transactions import CoordinatorState, TransactionDescription
from tidegate.kafka.wire import Wire
from tidegate.sinks.base import OpenTransaction
from tidegate.sinks.kafka.declared import DeclaredKafkaSink
from tidegate.sinks.kafka.names import TransactionalId


def open_of_job(wire: Wire, prefix: str, identity: SinkIdentity) -> Sequence[TransactionDescription]:
    """The open transactions of exactly this identity, of any generation."""
    return _open(wire, lambda found: found.belongs_to(prefix, identity))


def told_of_uids(sink: DeclaredKafkaSink, wire: Wire, identity: SinkIdentity) -> Sequence[OpenTransaction]:
    """The open transactions of this job, and those of other job ids under its uids that keep readers of the sink's
    topic waiting: an older life of this job, or another job.
    """
    found: list[OpenTransaction] = []
    for each in _open(wire, lambda found: found.belongs_to(sink.prefix, replace(identity, job_id=found.job_id))):
        whose = TransactionalId.parse(each.producer.transactional_id)
        mine = whose is not None and whose.job_id == identity.job_id
        if mine or sink.topic in {None, *(name for name, _ in each.partitions)}:
            since = None if each.begun_ms is None else each.begun_ms / 1000
            found.append(OpenTransaction(each.producer.name, since, mine))
    return found


def abort_unchanged(wire: Wire, transactions: Sequence[str], timeout_ms: int) -> None:
    """Fence the transactions that are unchanged: an id may have begun another transaction since it was listed."""
    ids = [name.rsplit("@", 1)[0] for name in transactions]
    for found in wire.describe(ids).values():
        if found.state is CoordinatorState.OPEN and found.producer.name in transactions:
            wire.fence(found.producer.transactional_id, timeout_ms)


def _open(wire: Wire, is_meant: Callable[[TransactionalId], bool]) -> Sequence[TransactionDescription]:
    names = [name for name, _ in wire.open_transactions()]
    meant = [name for name in names if (found := TransactionalId.parse(name)) is not None and is_meant(found)]
    return [each for each in wire.describe(meant).values() if each.state is CoordinatorState.OPEN]
