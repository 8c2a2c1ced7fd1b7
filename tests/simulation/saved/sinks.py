"""What stands behind a job's sinks, where no kill of the job reaches; and the sinks as protocol and start see them.

A table keeps its ledger by the names of job, query and sink; a transactional id is the cluster's, and has the job id,
the query and the sink in it: so a job that is forked, moved or restored meets what it has left there itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from tests.world.disk import Disk
from tests.world.rows import Row
from tests.world.sinks import KafkaSink, Show, SimSink, StagedSink, Table, position_of
from tests.world.sinks import _Producer as Producer
from tidegate.core.records import Answer, Attempt, Committable, Evidence, Position, SinkIdentity

Names: TypeAlias = tuple[str, str, str]
Producers: TypeAlias = dict[str, Producer]


@dataclass(slots=True)
class Targets:
    """The tables and topics that jobs write into, on a cluster whose transactional ids other targets may share."""

    producers: Producers
    tables: dict[Names, Table] = field(default_factory=dict[Names, Table])
    topics: dict[Names, list[Row]] = field(default_factory=dict[Names, list[Row]])
    groups: dict[str, Committable] = field(default_factory=dict[str, Committable])

    def open(self, identity: SinkIdentity, disk: Disk, show: Show) -> SimSink:
        """The sink of this identity; what it stages and keeps lies on `disk`."""
        kind = _Table if identity.sink[0] == "s" else _Topic
        return kind(self, identity, disk, show)

    def shown(self, job: str, query: str, sink: str) -> list[Row]:
        """The rows of a target."""
        names = job, query, sink
        return self.tables[names].rows if names in self.tables else self.topics.get(names, [])


class PlanSink:
    """A sink as the program declares it: of no job yet."""

    evidence_expires: ClassVar[bool] = False
    remembers: ClassVar[bool] = True
    stays_in_job: ClassVar[bool] = False
    delivery: ClassVar[None] = None

    def __init__(self, opened: Callable[[SinkIdentity], SimSink]) -> None:
        self._opened = opened
        self._newest: SimSink | None = None

    def position(self, identity: SinkIdentity) -> Position | None:
        return self._opened(identity).position()

    def pending(self, identity: SinkIdentity) -> list[str]:
        self._newest = self._opened(identity)
        return self._newest.pending()

    def abort(self, transactions: Sequence[str]) -> None:
        if self._newest is not None:
            self._newest.abort(transactions)

    def commit(self, committables: Sequence[Committable]) -> list[Answer]:
        return self._opened(committables[0].attempt.sink).commit(committables)

    def evidence(self, committable: Committable) -> Evidence:
        return self._opened(committable.attempt.sink).evidence(committable)

    def fence(self, committable: Committable) -> None:
        self._opened(committable.attempt.sink).fence(committable, {})

    def redo(self, committable: Committable, batches: Sequence[object]) -> Answer:
        return self._opened(committable.attempt.sink).redo(committable, {})

    def clean(self, identity: SinkIdentity, finished_through: int) -> None:
        self._opened(identity).clean(finished_through)

    def discard(self, identity: SinkIdentity, from_epoch: int) -> int:
        self._opened(identity).discard(from_epoch)
        return 0


class _Table(StagedSink):
    def __init__(self, targets: Targets, identity: SinkIdentity, disk: Disk, show: Show) -> None:
        table = targets.tables.setdefault(_names(identity), Table())
        super().__init__(identity, disk, show, one_run=True, table=table)

    def position(self) -> Position | None:
        if not self.table.ledger:
            return None
        newest = max(self.table.ledger)
        return _position(newest, self.table.ledger[newest])


class _Topic(KafkaSink):
    def __init__(self, targets: Targets, identity: SinkIdentity, disk: Disk, show: Show) -> None:
        super().__init__(identity, disk, show, one_run=True)
        self.log = targets.topics.setdefault(_names(identity), [])
        self.producers, self.groups = targets.producers, targets.groups
        self._mine = f"{identity.job_id}.{identity.query}.{identity.sink}."

    def pending(self) -> list[str]:
        return [each for each in super().pending() if each.startswith(self._mine)]

    def position(self) -> Position | None:
        mine = [each for each in self.groups.values() if _names(each.attempt.sink) == _names(self.identity)]
        if not mine:
            return None
        newest = max(map(_at, mine))
        return _position(newest, [each for each in mine if _at(each) == newest])

    def _id(self, attempt: Attempt) -> str:
        return f"{self._mine}{super()._id(attempt)}"


def _names(identity: SinkIdentity) -> Names:
    return identity.job, identity.query, identity.sink


def _at(committable: Committable) -> tuple[int, int]:
    return committable.attempt.sink.generation, committable.attempt.epoch


def _position(at: tuple[int, int], committables: Sequence[Committable]) -> Position:
    return position_of(committables[0].attempt.sink, at, committables)
