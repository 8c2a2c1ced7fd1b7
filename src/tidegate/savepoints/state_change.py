"""Decides in advance if state can be rewritten for another backend or another number of partitions.

State is rows (key, value) by operator and store, and Spark's shuffle assigns each key to a partition. The table lists
the operators for which Spark has both a reader and a rule for that. Others cannot be moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import SavedQuery, StatefulOperator
from tidegate.savepoints.refusals import only_native
from tidegate.settings.kinds import Backend


@dataclass(frozen=True, slots=True)
class StateForm:
    """The form of state: its backend, and its number of partitions."""

    backend: Backend
    partitions: int


@dataclass(frozen=True, slots=True)
class StateChange:
    """The form of a query's state in the savepoint, and the one that the program wants."""

    before: StateForm
    after: StateForm

    @property
    def moves(self) -> bool:
        """True if the state moves to another backend."""
        return self.before.backend is not self.after.backend


class Reach(Enum):
    """The possible moves of an operator's state."""

    EVERYWHERE = "to any number of partitions of any backend"
    PARTITIONS = "to any number of partitions of rocksdb, which alone can keep it"


MOVABLE: Mapping[str, Reach] = {
    "stateStoreSave": Reach.EVERYWHERE,
    "sessionWindowStateStoreSaveExec": Reach.EVERYWHERE,
    "dedupe": Reach.EVERYWHERE,
    "dedupeWithinWatermark": Reach.EVERYWHERE,
    "symmetricHashJoin": Reach.EVERYWHERE,
    "flatMapGroupsWithState": Reach.EVERYWHERE,
    "applyInPandasWithState": Reach.EVERYWHERE,
    "transformWithStateExec": Reach.PARTITIONS,
    "transformWithStateInPandasExec": Reach.PARTITIONS,
    "transformWithStateInPySparkExec": Reach.PARTITIONS,
}
"""By Spark's short names. A `limit` is missing, because Spark writes no schema of its counts."""


def is_custom(kind: str) -> bool:
    """True if the state of this kind of operator is custom: variables of the program, which only rocksdb supports."""
    return MOVABLE.get(kind) is Reach.PARTITIONS


def lives_by_rows(operators: Iterable[StatefulOperator]) -> bool:
    """True if the state of these operators consists of rows of key and value. Custom state has more, such as the order
    of timers, and is restored only from Spark's files.
    """
    return all(MOVABLE.get(operator.name) is Reach.EVERYWHERE for operator in operators)


def rows_refused(operators: Iterable[StatefulOperator], where: str) -> Iterator[TidegateError]:
    """The errors of a savepoint that stores the state of these operators as rows."""
    for operator in operators:
        if operator.name not in MOVABLE:
            found = f"operator {operator.number} ({operator.name}), whose state only its own files hold"
            yield only_native("operators whose state Spark can read row by row", found, where)


def state_form(saved: SavedQuery) -> StateForm | None:
    """The form of the state of a saved query; None if the log of the savepoint does not show a known form."""
    known = {each.value: each for each in Backend}
    if saved.backend not in known or saved.partitions is None:
        return None
    return StateForm(known[saved.backend], saved.partitions)


def state_change(saved: SavedQuery, backend: Backend, partitions: int | None) -> StateChange | None:
    """The change for a program that requests these; None if nothing changes, or if the log of the savepoint does not
    show the old form. `partitions`: None leaves them unchanged.
    """
    before = state_form(saved)
    if before is None:
        return None
    after = StateForm(backend, before.partitions if partitions is None else partitions)
    return None if before == after else StateChange(before, after)


def changes_told(uid: str, saved: SavedQuery, change: StateChange) -> Iterator[str]:
    """The change in words, if there is state to change."""
    if not saved.operators:
        return
    if change.before.backend is not change.after.backend:
        yield (
            f"query {uid}: its state moves from {change.before.backend.value} to {change.after.backend.value}, "
            "row by row"
        )
    if change.before.partitions != change.after.partitions:
        yield (
            f"query {uid}: its state is divided into {change.after.partitions} partitions instead of "
            f"{change.before.partitions}, row by row"
        )


def refusals(
    saved: SavedQuery, backend: Backend, partitions: int | None, change: StateChange | None, where: str
) -> Iterator[TidegateError]:
    """The errors of a change."""
    if change is None:
        yield from _unknown(saved, backend, partitions, where)
        return
    for operator in saved.operators:
        reach = MOVABLE.get(operator.name)
        if reach is None:
            yield _stays(operator, change, where)
        elif change.moves and reach is Reach.PARTITIONS:
            yield TidegateError(
                Code.STATE_FORMAT,
                expected=f"operators whose state {change.after.backend.value} can keep",
                found=f"operator {operator.number} ({operator.name}): state of its own, which moves {reach.value}",
                where=where,
                next_step=f"leave its state where it is: -D state.backend={change.before.backend.value}",
            )


def _stays(operator: StatefulOperator, change: StateChange, where: str) -> TidegateError:
    limit = " (what a limit has counted)" if "limit" in operator.name.lower() else ""
    before = f"-D state.backend={change.before.backend.value} -D parallelism={change.before.partitions}"
    return TidegateError(
        Code.STATE_FORMAT if change.moves else Code.RESTORE_PARTITIONS,
        expected="operators whose state Spark can read row by row, where it moves to another backend or to other "
        "partitions",
        found=f"operator {operator.number} ({operator.name}){limit}, whose files can only be taken as they are",
        where=where,
        next_step=f"restore its state in the form that it has: {before}; or without this operator in the query, "
        "under another uid",
    )


def _unknown(saved: SavedQuery, backend: Backend, partitions: int | None, where: str) -> Iterator[TidegateError]:
    """The error if another form is requested, and the savepoint's own form is not recorded in a known way."""
    if saved.backend not in (None, backend.value):
        yield TidegateError(
            Code.STATE_FORMAT,
            expected=f"state of {backend.value}, as state.backend says, or of another backend that can be moved to it",
            found=f"state of {saved.backend} in the savepoint",
            where=where,
            next_step="take the savepoint from a job that keeps its state in hashmap or rocksdb",
        )
    if saved.operators and partitions not in (None, saved.partitions):
        yield TidegateError(
            Code.RESTORE_PARTITIONS,
            expected=f"state of {partitions} partitions, as parallelism says",
            found=f"{saved.partitions or 'an unknown number'} in the savepoint",
            where=where,
            next_step="leave parallelism out: the state stays in the partitions that it has"
            if saved.partitions is None
            else f"leave the state in the partitions that it has: -D parallelism={saved.partitions}",
        )
