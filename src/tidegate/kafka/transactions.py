"""Transactions of Kafka as the wire names and describes them, and the marks that prove one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class CoordinatorState(Enum):
    """How a transaction stands at its coordinator, as far as it matters here."""

    OPEN = "Ongoing"
    ENDING = "ending"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Producer:
    """The identity of one transaction: it serves one attempt, and never another."""

    transactional_id: str
    producer_id: int
    producer_epoch: int

    @property
    def name(self) -> str:
        """How a sink names this transaction: its id alone may serve another one by now."""
        return f"{self.transactional_id}@{self.producer_id}:{self.producer_epoch}"


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id at its coordinator; `partitions` are those of the open transaction, as (topic, number).

    `begun_ms`: when the open transaction began, by the broker's clock (Unix time); None where none is open.
    """

    producer: Producer
    state: CoordinatorState
    partitions: frozenset[tuple[str, int]]
    begun_ms: int | None = None

    def is_open(self, producer: Producer) -> bool:
        """Whether this very producer's transaction is open."""
        return self.state is CoordinatorState.OPEN and self.producer == producer


@dataclass(frozen=True, slots=True)
class OffsetMark:
    """An offset of a consumer group that was committed with a transaction: what proves that it was."""

    group: str
    topic: str
    offset: int
    metadata: str
