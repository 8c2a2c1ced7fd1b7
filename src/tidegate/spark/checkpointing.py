"""Takes the checkpoints of a job with channels beside the job: regularly, and at its end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from threading import Lock
from typing import TYPE_CHECKING

from tidegate.channels.coordinator import Coordinator
from tidegate.core.barriers import Alignment, AlignmentRule
from tidegate.core.errors import Code, TidegateError
from tidegate.operate.beat import JobState
from tidegate.savepoints.graph_checkpoints import GraphCheckpoints
from tidegate.savepoints.running_job import CheckpointAborted
from tidegate.spark.savepoint_requests import in_one_line
from tidegate.spark.ticking import Ticking

if TYPE_CHECKING:
    from tidegate.spark.live_job import LiveJob

_LOG = logging.getLogger("tidegate")
_TICK_SECONDS = 0.2
_REST_PER_SECOND = 9.0
"""Where files are held by copies, so many seconds without a checkpoint follow each second of one."""


class Checkpointing(Ticking):
    """Takes a checkpoint when the interval has passed and an epoch was done since the last one. One that is aborted is
    logged, and fails no epoch: recovery does not use it.
    """

    def __init__(
        self,
        checkpoints: GraphCheckpoints,
        coordinator: Coordinator,
        alignment: AlignmentRule,
        interval_seconds: float,
        keep_input: Callable[[], AbstractContextManager[None]],
        *,
        by_copies: bool,
    ) -> None:
        """`interval_seconds`: between the end of a checkpoint and the begin of the next one, at least. `keep_input`:
        while a checkpoint is taken, its sources remove no input that it needs. `by_copies`: its files are copied.
        """
        super().__init__("checkpoint across its queries", min(_TICK_SECONDS, interval_seconds))
        self._checkpoints = checkpoints
        self._coordinator = coordinator
        self._alignment = alignment
        self._interval_seconds = interval_seconds
        self._keep_input = keep_input
        self._rest_per_second = _REST_PER_SECOND if by_copies else 0.0
        self._job: LiveJob | None = None
        self._runs = False
        self._is_swept = False
        self._taken: Mapping[str, int] = {}
        """The epochs of the newest checkpoint."""
        self._next_at = 0.0
        self._said = ""
        self._taking = Lock()

    def begin(self, handle: LiveJob) -> None:
        self._job = handle

    def started(self, job: LiveJob) -> None:
        self._runs = True

    def tick(self) -> None:
        finished = self._finished()
        if not self._runs or time.monotonic() < self._next_at or finished == self._taken or -1 in finished.values():
            return
        begun = time.monotonic()
        try:
            with self._taking:
                self._take(finished)
        except (_JobEnds, CheckpointAborted):
            return
        except TidegateError as error:
            if self._coordinator.is_open and self._lost_lease() is None:
                self._say(in_one_line(error))
        finally:
            took = time.monotonic() - begun
            self._next_at = time.monotonic() + max(self._interval_seconds, self._rest_per_second * took)

    def drained(self) -> None:
        """Take the checkpoint of a drained job. Unlike others it is part of a request: if it fails, the drain fails,
        and the next start resumes the drain.
        """
        with self._taking:
            self._sweep()
            if self._checkpoints.take_last(Alignment.ALIGNED, self._refuse_without_lease, drained=True):
                self._taken = self._finished()

    def last(self, error: BaseException | None) -> None:
        """All queries have ended. If the end followed the graph, their newest epochs are a cut."""
        ended_well = self._job is not None and self._job.outcome.end_state(error) in (
            JobState.FINISHED,
            JobState.STOPPED,
        )
        if not self._runs or not ended_well:
            return
        try:
            with self._taking:
                self._sweep()
                if self._finished() != self._taken:
                    self._checkpoints.take_last(self._alignment.end, self._refuse_without_lease)
        except TidegateError as refused:
            if refused.catalogue_entry is not Code.SAVEPOINT_REFUSED:
                raise

    def _take(self, finished: Mapping[str, int]) -> None:
        self._sweep()
        if finished == self._taken:
            return
        with self._keep_input(), self._coordinator.checkpoint(self._refuse_at_the_end, self._alignment) as snapshots:
            is_taken = self._checkpoints.take(snapshots, snapshots.go_on)
        if is_taken:
            self._taken, self._said = finished, ""
        else:
            self._say("Spark has removed files of a query while the others took part; a later checkpoint may be taken")

    def _sweep(self) -> None:
        if not self._is_swept:
            self._taken = self._checkpoints.sweep()
            self._is_swept = True

    def _say(self, what: str) -> None:
        """Log a failure, once until a checkpoint is taken."""
        if not self._said:
            _LOG.warning("the job continues, but a checkpoint across its queries was not taken: %s", what)
        self._said = what

    def _finished(self) -> Mapping[str, int]:
        return {} if self._job is None else self._job.figures.finished()

    def _refuse_at_the_end(self) -> None:
        self._refuse_without_lease()
        if self._over.is_set() or not self._coordinator.is_open:
            raise _JobEnds

    def _refuse_without_lease(self) -> None:
        if (lost := self._lost_lease()) is not None:
            raise lost


class _JobEnds(Exception):
    """The job ends while a checkpoint is taken."""
