"""A database with prepared branches (`PREPARE TRANSACTION`, XA), and the sink that lives with it.

The evidence is a row of the branch itself, and an uncommitted row locks its key: a branch that stays prepared blocks
whoever writes the same key. A branch that is unknown was committed, or rolled back by somebody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tests.simulator.kafka import journal_gone
from tests.world.disk import Disk
from tests.world.rows import Row
from tests.world.sinks import BaseSink, Fences, Rows, Show, position_of
from tidegate.core.records import Answer, Attempt, Committable, Evidence, Outcome, Position, SinkIdentity

Key: TypeAlias = tuple[object, ...]


@dataclass(slots=True)
class Database:
    """One table, its evidence rows, and the prepared branches by their attempts."""

    rows: list[Row] = field(default_factory=list[Row])
    evidence: dict[Key, Committable] = field(default_factory=dict[Key, Committable])
    branches: dict[Attempt, Rows] = field(default_factory=dict[Attempt, Rows])


class BranchSink(BaseSink):
    """A prepared branch per attempt, committed by the driver."""

    def __init__(self, identity: SinkIdentity, disk: Disk, show: Show, *, one_run: bool, database: Database) -> None:
        super().__init__(identity, disk, show, one_run=one_run)
        self.database = database
        self.beside = False  # whether the newest branch was prepared beside another one of its task

    def is_locked(self, attempt: Attempt) -> bool:
        """Whether a prepared branch holds the row that this attempt is about to write."""
        return any(_key(other) == _key(attempt) for other in self.database.branches if other != attempt)

    def prepare(self, attempt: Attempt, rows: Rows, handle: int) -> Committable:
        committable = self._committable(attempt, rows, self._keep(attempt, rows), handle)
        self.beside = any(other.task == attempt.task for other in self.database.branches)
        self.database.branches[attempt] = rows
        return committable

    def commit(self, committables: Sequence[Committable]) -> list[Answer]:
        return [self._commit_branch(committable) for committable in committables]

    def commit_half(self, committable: Committable) -> None:
        self._commit_branch(committable)

    def evidence(self, committable: Committable) -> Evidence:
        standing = self.database.evidence.get(_key(committable.attempt))
        if standing is None:
            return Evidence.ABSENT
        return Evidence.PRESENT if standing == committable else Evidence.OTHER

    def fence(self, committable: Committable, fences: Fences) -> None:
        """A branch that is still prepared is rolled back: nobody commits it after the look."""
        self.database.branches.pop(committable.attempt, None)

    def redo(self, committable: Committable, fences: Fences) -> Answer:
        """One transaction, rows and evidence; the evidence's key lets only one redo through."""
        rows = self._kept(committable.attempt)
        if _key(committable.attempt) in self.database.evidence:
            return Answer(outcome=Outcome.RETRY, detail="the evidence is there by now")
        if rows is None:
            raise journal_gone(committable)
        self._apply(committable, rows)
        return Answer(outcome=Outcome.COMMITTED)

    def pending(self) -> list[str]:
        return list(self._prepared())

    def abort(self, transactions: Sequence[str]) -> None:
        for transaction, attempt in self._prepared().items():
            if transaction in transactions:
                self.database.branches.pop(attempt, None)

    def time_out(self) -> None:
        self.database.branches.clear()

    def position(self) -> Position | None:
        found = self.database.evidence.values()
        if not found:
            return None
        newest = max(_at(each.attempt) for each in found)
        return position_of(self.identity, newest, [each for each in found if _at(each.attempt) == newest])

    def visible(self) -> list[Row]:
        return self.database.rows

    def leftovers(self) -> list[str]:
        return [*super().leftovers(), *(f"prepared branch {name}" for name in self.pending())]

    def _prepared(self) -> dict[str, Attempt]:
        return {
            f"g{attempt.sink.generation}-e{attempt.epoch}-{attempt.name}": attempt for attempt in self.database.branches
        }

    def _commit_branch(self, committable: Committable) -> Answer:
        rows = self.database.branches.pop(committable.attempt, None)
        if rows is None:
            return Answer(outcome=Outcome.LOST, detail="no such prepared branch")
        self._apply(committable, rows)
        return Answer(outcome=Outcome.COMMITTED)

    def _apply(self, committable: Committable, rows: Rows) -> None:
        self._show(self.identity.sink, committable.attempt.epoch, rows)
        self.database.rows.extend(rows)
        self.database.evidence[_key(committable.attempt)] = committable


def _key(attempt: Attempt) -> Key:
    """What the evidence row is found by: the whole attempt, so that a retry never waits for its own orphan's lock."""
    return attempt.sink.generation, attempt.epoch, attempt.name


def _at(attempt: Attempt) -> tuple[int, int]:
    return attempt.sink.generation, attempt.epoch
