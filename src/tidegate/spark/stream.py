"""What tidegate asks of a running Spark query through Py4J: positions, state ids, its thread."""

from __future__ import annotations

import time
from typing import Any, cast

from py4j.protocol import Py4JNetworkError
from pyspark.sql.streaming.query import StreamingQuery

from tidegate.core.spark_log import canonical_state_ids

_STATE_WRITER = "org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter"


class RunningStream:
    """A started query of Spark, seen from its driver."""

    def __init__(self, query: StreamingQuery, jvm: Any) -> None:
        self.query = query
        self._execution: Any = cast("Any", query._jsq).streamingQuery()  # pyright: ignore[reportPrivateUsage]
        # By name: Py4J's view of the JVM does not reach Scala traits as types.
        loader = self._execution.getClass().getClassLoader()
        self._state_writer: Any = jvm.java.lang.Class.forName(_STATE_WRITER, True, loader)

    def start_positions(self) -> tuple[str | None, ...]:
        """What Spark holds as committed for each source, by position, in JSON; read inside an epoch."""
        sources: Any = self._execution.sources()
        committed: Any = self._execution.committedOffsets()
        offsets = [committed.get(sources.apply(index)) for index in range(sources.size())]
        return tuple(offset.get().json() if offset.isDefined() else None for offset in offsets)

    def state_ids(self) -> str | None:
        """The ids of the state files that the running epoch wrote; equal to what `commits/N` will say.

        Read inside the epoch, after its one action. None for an epoch without state.
        """
        found: dict[str, Any] = {}
        for node in self._state_writers(self._execution.lastExecution().executedPlan()):
            operator = str(node.getStateInfo().operatorId())
            infos = sorted(node.getStateStoreCheckpointInfo(), key=lambda info: info.partitionId())
            found[operator] = [list(info.stateStoreCkptId().get()) for info in infos]
        return canonical_state_ids(found)

    def has_ended(self) -> bool:
        """Whether the stream thread has ended: until then it can still write `commits/N`."""
        try:
            return not self._execution.queryExecutionThread().isAlive()
        except Py4JNetworkError:
            return True  # the JVM is gone, and its threads with it

    def await_end(self, timeout_seconds: float) -> bool:
        """Wait until the stream thread has ended; False at the timeout."""
        end = time.monotonic() + timeout_seconds
        while not self.has_ended():
            if time.monotonic() >= end:
                return False
            time.sleep(0.02)
        return True

    def _state_writers(self, node: Any) -> list[Any]:
        children: Any = node.children()
        below = [writer for index in range(children.size()) for writer in self._state_writers(children.apply(index))]
        return [node, *below] if self._state_writer.isInstance(node) else below
