"""The Py4J calls to a running Spark query: positions, state ids, its thread."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import Any, cast

from py4j.protocol import Py4JNetworkError
from pyspark.sql.streaming.query import StreamingQuery

from tidegate.core.effects import OwnPlan
from tidegate.core.errors import Code, TidegateError
from tidegate.core.spark_log import canonical_state_ids
from tidegate.spark.look import OperatorState, PlanLook

JVM_IS_GONE = (Py4JNetworkError, ConnectionRefusedError)
"""The errors of a call to a dead JVM. A thread with a connection tries it once more, any other opens a new one, which
fails.
"""


def is_gone(jvm: Any) -> bool:
    """True if the JVM is dead, with all its threads."""
    try:
        jvm.System.nanoTime()
    except JVM_IS_GONE:
        return True
    return False


@dataclass(frozen=True, slots=True)
class PlanState:
    """What the plan of an epoch tells after its action. `ids`: of the state files that it wrote, equal to those in
    `commits/N` later; `base_ids`: of those that it began with. Both are None for an epoch without state, and for files
    without unique names. `rows`: of state after it, by operator, if Spark has counted them. `read`: the rows that the
    sources have given; None if the plan does not tell.
    """

    ids: str | None
    base_ids: str | None
    rows: dict[str, int]
    read: int | None


class RunningStream:
    """A started query of Spark, seen from its driver."""

    def __init__(self, query: StreamingQuery, jvm: Any) -> None:
        self.query = query
        self._execution: Any = cast("Any", query._jsq).streamingQuery()  # pyright: ignore[reportPrivateUsage]
        self._look = PlanLook(jvm, self._execution.getClass().getClassLoader())

    def begins(self) -> None:
        """Called inside an epoch: `has_logged` is about this one from now on."""
        self._look.begins(self._execution)

    def has_logged(self) -> bool:
        """True if Spark has written the entry in `commits` of the newest epoch. It asks Spark, not the storage."""
        try:
            return self._look.has_logged(self._execution)
        except JVM_IS_GONE:
            return False  # the end of its thread is noticed elsewhere

    def start_positions(self) -> tuple[str | None, ...]:
        """The committed position of each source in Spark, in JSON; read inside an epoch."""
        sources: Any = self._execution.sources()
        committed: Any = self._execution.committedOffsets()
        offsets = [committed.get(sources.apply(index)) for index in range(sources.size())]
        return tuple(offset.get().json() if offset.isDefined() else None for offset in offsets)

    def own_plan(self, base_ids: str | None) -> OwnPlan:
        """The running epoch as Spark's thread has planned it, from memory and not from the log."""
        sources: Any = self._execution.sources()
        available: Any = self._execution.availableOffsets()
        offsets = [available.get(sources.apply(index)) for index in range(sources.size())]
        ends = tuple(offset.get().json() if offset.isDefined() else None for offset in offsets)
        metadata: Any = self._execution.lastExecution().offsetSeqMetadata()
        return OwnPlan(ends, int(metadata.batchWatermarkMs()), base_ids)

    def state(self, *, names_files: bool) -> PlanState:
        """What the plan of the running epoch tells, read inside the epoch, after its one action.

        Raises EPOCH_TORN if state was computed twice: then its rows and its ids may come from different computations.
        """
        plan: Any = self._execution.lastExecution().executedPlan()
        found, read = self._look.state_of(plan, names_files=names_files)
        for operator, state in found.items():
            self._refuse_second_computation(operator, state.successes)
        rows = {operator: state.rows for operator, state in found.items() if state.rows is not None}
        if not names_files:
            return PlanState(None, None, rows, read)
        ids, base = (
            {operator: [ids for _, ids in sorted(named(state).items())] for operator, state in found.items()}
            for named in (_written, _begun_with)
        )
        begun_with = canonical_state_ids(base if any(base.values()) else None)
        return PlanState(canonical_state_ids(ids), begun_with, rows, read)

    def _refuse_second_computation(self, operator: str, successes: Counter[int]) -> None:
        """Raise if a task with state succeeded more than once.

        Spark keeps an entry for each success and names the first in `commits/N`, while the next stage reads the output
        of the last. It records a success before any task can read its rows, so one entry means one computation. The
        tasks of the last stage count once, because their entry and their committables belong together.
        """
        if max(successes.values(), default=0) <= 1:
            return
        twice = ", ".join(
            f"{part} was computed {count} times" for part, count in sorted(successes.items()) if count > 1
        )
        raise TidegateError(
            Code.EPOCH_TORN,
            expected=f"state of operator {operator} that was computed once in each partition",
            found=f"partition {twice}, after its output for the next stage was lost",
            where=f"query {self.query.name}",
        )

    def thrown(self) -> Any:
        """The Java throwable that ended the query; None if it runs, ended well, or the JVM is dead."""
        try:
            error: Any = self._execution.exception()
            return error.get() if error.isDefined() else None
        except JVM_IS_GONE:
            return None

    def has_ended(self) -> bool:
        """True if the stream thread has ended: until then it can still write `commits/N`."""
        try:
            return not self._execution.queryExecutionThread().isAlive()
        except JVM_IS_GONE:
            return True  # and its threads with it

    def await_end(self, timeout_seconds: float) -> bool:
        """Wait until the stream thread has ended. False at the timeout."""
        end = time.monotonic() + timeout_seconds
        while not self.has_ended():
            if time.monotonic() >= end:
                return False
            time.sleep(0.02)
        return True


def _written(state: OperatorState) -> dict[int, list[str]]:
    return state.ids


def _begun_with(state: OperatorState) -> dict[int, list[str]]:
    return state.base
