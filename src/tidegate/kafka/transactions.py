"""Transactions of Kafka as requests name and describe them, and the offsets that prove their commit."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class CoordinatorState(Enum):
    """The state of a transaction at its coordinator, as far as tidegate distinguishes it."""

    OPEN = "Ongoing"
    ENDING = "ending"
    CLOSED = "closed"


class Unsettled(Enum):
    """What a request does while a transaction that it meets is open or being ended."""

    AWAIT = "wait until it has ended"
    SHOW = "answer what is there now"


@dataclass(frozen=True, slots=True)
class Producer:
    """The identity of one transaction: a transactional id with producer id and epoch.

    It is used for one attempt only.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int

    @property
    def name(self) -> str:
        """The name of this transaction in a sink. The transactional id alone could be in use by a later one."""
        return f"{self.transactional_id}@{self.producer_id}:{self.producer_epoch}"


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """The state of a transactional id at its coordinator. `partitions`: (topic, number) of its open transaction.

    `begun_ms`: when the open transaction began, in milliseconds of Unix time by the broker's clock; None if none is
    open.
    """

    producer: Producer
    state: CoordinatorState
    partitions: frozenset[tuple[str, int]]
    begun_ms: int | None = None

    def is_open(self, producer: Producer) -> bool:
        """True if the open transaction belongs to this producer."""
        return self.state is CoordinatorState.OPEN and self.producer == producer


@dataclass(frozen=True, slots=True)
class OffsetMark:
    """An offset of a consumer group that was committed as part of a transaction.

    It proves that the transaction committed.
    """

    group: str
    topic: str
    offset: int
    metadata: str
