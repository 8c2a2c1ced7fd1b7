"""A topic with one partition, and the channel over it: what a broker does is played, the rest is the code that a job
calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from tests.simulation.graphs.rows import Row, Rows
from tidegate.channels.kafka import KafkaChannel, KafkaChannelSink
from tidegate.core.records import (
    Answer,
    Committable,
    Evidence,
    JournalRef,
    Outcome,
    Position,
    SinkIdentity,
    digest_of_all,
)
from tidegate.sources.kafka.offsets import OffsetOf, OffsetRange, Partition
from tidegate.sources.kafka.topics import FoundPartitions, PartitionEnd, TopicSelection
from tidegate.storages.schemes import Folder

TRANSACTION = "transaction"


class Transacted(Enum):
    """How a transaction stands."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(slots=True)
class Topic:
    """`step`, `linger`: another thread can get its turn there. `records`: each with the name of its transaction; a
    marker has no row. `runs`: of each transaction, the run that has begun it. `unmarked`: those that have ended without
    a marker yet: a broker answers before it has written them. `evidence`: that of the newest committed epoch.
    """

    step: Callable[[], None]
    linger: Callable[[], None]
    records: list[tuple[Row | None, str]] = field(default_factory=list[tuple[Row | None, str]])
    transactions: dict[str, Transacted] = field(default_factory=dict[str, Transacted])
    runs: dict[str, int] = field(default_factory=dict[str, int])
    unmarked: list[str] = field(default_factory=list[str])
    evidence: Position | None = None

    def begin(self, run: int, rows: Rows) -> str:
        """The name of a transaction with these rows."""
        name = str(len(self.transactions))
        self.transactions[name], self.runs[name] = Transacted.OPEN, run
        self.records += [(row, name) for row in rows]
        return name

    def commit(self, name: str, committable: Committable) -> None:
        """Its evidence is part of the transaction."""
        attempt, digest = committable.attempt, digest_of_all([committable.digest])
        self.transactions[name] = Transacted.COMMITTED
        self.unmarked.append(name)
        self.evidence = Position(
            job_id=attempt.sink.job_id, generation=attempt.sink.generation, epoch=attempt.epoch, digest=digest
        )

    def abort(self, names: Iterable[str]) -> None:
        for name in names:
            if self.transactions[name] is Transacted.OPEN:
                self.transactions[name] = Transacted.ABORTED
                self.unmarked.append(name)

    @property
    def open(self) -> list[str]:
        return [name for name, state in self.transactions.items() if state is Transacted.OPEN]

    def committed(self, wanted: OffsetRange) -> Rows:
        """As a reader sees a range."""
        self.step()
        found = self.records[wanted.start : wanted.end]
        return [row for row, name in found if row is not None and self.transactions[name] is Transacted.COMMITTED]

    # --- what a client asks --------------------------------------------------------------------------------------

    def find(self, selection: TopicSelection) -> FoundPartitions:
        self.step()
        [name] = selection.topics
        return FoundPartitions(frozenset({(name, 0)}), {name: name})

    def at(self, partitions: Collection[Partition], mark: PartitionEnd) -> OffsetOf:
        self.linger()
        found = dict.fromkeys(partitions, self._at(mark))
        self.records += [(None, name) for name in self.unmarked]
        self.unmarked.clear()
        return found

    def _at(self, mark: PartitionEnd) -> int:
        match mark:
            case PartitionEnd.EARLIEST:
                return 0
            case PartitionEnd.HIGH_WATERMARK:
                return len(self.records)
            case PartitionEnd.LATEST:
                waiting = {*self.open, *self.unmarked}
                return next((at for at, (_, name) in enumerate(self.records) if name in waiting), len(self.records))


class PlayedChannel(KafkaChannelSink):
    """The channel in one driver."""

    def __init__(self, uid: str, folder: Folder, topic: Topic) -> None:
        super().__init__(uid, folder, KafkaChannel("nowhere:9092", uid))
        self.topic = topic
        self._claimed_at = math.inf
        self._seen: frozenset[str] = frozenset()

    def begun(self, run: int, rows: Rows) -> Mapping[str, str]:
        """The handle of a transaction with these rows. What an older run opens late is aborted when it is seen for the
        second time, as the watch of a Kafka sink does.
        """
        late = frozenset(name for name in self.topic.open if self.topic.runs[name] < run)
        self.topic.abort(late & self._seen)
        self._seen = late
        return {TRANSACTION: self.topic.begin(run, rows)}

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        return [Answer(outcome=self._commit(each)) for each in committables]

    def _commit(self, committable: Committable) -> Outcome:
        self.topic.step()
        name = committable.handle[TRANSACTION]
        match self.topic.transactions[name]:
            case Transacted.OPEN:
                self.topic.commit(name, committable)
                return Outcome.COMMITTED
            case Transacted.COMMITTED:
                return Outcome.ALREADY
            case Transacted.ABORTED:
                return Outcome.LOST

    def evidence(self, committable: Committable) -> Evidence:
        self.topic.step()
        rewritten = _rewritten(committable)
        done = any(
            self.topic.transactions.get(name) is Transacted.COMMITTED
            for name in (committable.handle[TRANSACTION], rewritten)
        )
        return Evidence.PRESENT if done else Evidence.ABSENT

    def fence(self, committable: Committable) -> None:
        self.topic.abort([committable.handle[TRANSACTION]])

    def redo(self, committable: Committable, batches: Iterable[Any]) -> Answer:
        """Under its own name: there is one such transaction, and it has the rows of the lost one."""
        self.topic.step()
        name, lost = _rewritten(committable), committable.handle[TRANSACTION]
        if self.topic.transactions.get(name) is Transacted.COMMITTED:
            return Answer(outcome=Outcome.ALREADY)
        self.topic.records += [(row, name) for row, each in self.topic.records if each == lost and row is not None]
        self.topic.commit(name, committable)
        return Answer(outcome=Outcome.COMMITTED)

    def position(self, identity: SinkIdentity) -> Position | None:
        self.topic.step()
        return self.topic.evidence

    def pending(self, identity: SinkIdentity) -> Sequence[str]:
        self.topic.step()
        return self.topic.open

    def abort(self, transactions: Sequence[str]) -> None:
        self.topic.abort(transactions)


def _rewritten(committable: Committable) -> str:
    return f"{committable.handle[TRANSACTION]} again"


def journal_of(rows: Rows) -> JournalRef:
    """Stands for the journal of a transaction: `redo` finds the rows in the topic."""
    return JournalRef(name="played", rows=len(rows), size_bytes=0, checksum="")
