"""Takes the checkpoints of a job with channels beside the job: regularly, and at its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tidegate.channels.coordinator import Coordinator
from tidegate.core.errors import Code, TidegateError
from tidegate.savepoints.graph_checkpoints import GraphCheckpoints
from tidegate.savepoints.running_job import CheckpointAborted
from tidegate.spark.ticking import Ticking

if TYPE_CHECKING:
    from tidegate.spark.live_job import LiveJob

_TICK_SECONDS = 0.2


class Checkpointing(Ticking):
    """Takes a checkpoint when the interval has passed and an epoch was done since the last one. One that is aborted is
    logged, and fails no epoch: recovery does not use it.
    """

    def __init__(self, checkpoints: GraphCheckpoints, coordinator: Coordinator, interval_seconds: float) -> None:
        """`interval_seconds`: between the end of a checkpoint and the begin of the next one."""
        super().__init__("checkpoint across its queries", min(_TICK_SECONDS, interval_seconds))
        self._checkpoints = checkpoints
        self._coordinator = coordinator
        self._interval_seconds = interval_seconds
        self._finished: Callable[[], Mapping[str, int]] = dict
        self._taken: Mapping[str, int] = {}
        self._next_at = 0.0

    def begin(self, handle: LiveJob) -> None:
        self._checkpoints.begin()
        self._finished = handle.figures.finished

    def tick(self) -> None:
        finished = self._finished()
        if time.monotonic() < self._next_at or finished == self._taken or not self._coordinator.is_ready:
            return
        try:
            with self._coordinator.checkpoint(self._refuse_at_the_end) as snapshot_of:
                is_taken = self._checkpoints.take(
                    lambda running: snapshot_of(running.query.uid), self._refuse_at_the_end
                )
            self._taken = finished if is_taken else self._taken
        except (_JobEnds, CheckpointAborted):
            return
        except TidegateError:
            if self._coordinator.is_open:
                raise
        finally:
            self._next_at = time.monotonic() + self._interval_seconds

    def drained(self) -> None:
        """Take the checkpoint of a drained job. Unlike others it is part of a request: if it fails, the drain fails,
        and the next start resumes the drain.
        """
        self._checkpoints.take_last(drained=True)
        self._taken = self._finished()

    def last(self, error: BaseException | None) -> None:
        """All queries have ended. If the end followed the graph, their newest epochs are a cut."""
        if self._finished() == self._taken:
            return
        try:
            self._checkpoints.take_last()
        except TidegateError as refused:
            if refused.catalogue_entry is not Code.SAVEPOINT_REFUSED:
                raise

    def _refuse_at_the_end(self) -> None:
        if self._over.is_set() or not self._coordinator.is_open:
            raise _JobEnds


class _JobEnds(Exception):
    """The job ends while a checkpoint is taken."""
