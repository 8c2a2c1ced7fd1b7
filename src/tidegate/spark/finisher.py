"""The thread that commits a run's epochs after their computation, and that waits for sinks that are not ready.

The core decides which epoch is finished and when (`finish_as_they_come`). The thread ends when the stream has ended and
its decided epochs are committed, or at the first error, which ends the run.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from functools import partial

from tidegate.core.effects import Hesitate
from tidegate.core.errors import Code, TidegateError
from tidegate.core.finish_steadily import finish_as_they_come
from tidegate.core.ledger import Query
from tidegate.core.records import Run
from tidegate.operate.runner import Runner
from tidegate.spark.epoch_watch import EpochRefused
from tidegate.spark.run_state import STREAM_IS_OVER
from tidegate.spark.shared_state import SharedState

_LOG = logging.getLogger("tidegate")
_COMMIT_POLL_GROWTH = 1.05  # so a pause is about a twentieth of the time waited so far
_COMMIT_POLL_FIRST_SECONDS = 0.001
_COMMIT_POLL_MOST_SECONDS = 0.1
_LOOK_SECONDS = 0.05
_RETRY_SECONDS_AT_MOST = 5.0
COMMIT_RETURNS_WITHIN_SECONDS = 10.0
"""A running commit may complete after the wait for sinks is over; a commit that hangs is abandoned. The supervisor of a
driver ends it 30 seconds after `stop_timeout`.
"""


class Finisher:
    """The finisher of one run. It has no run before it starts.

    `has_logged`: asks Spark, not the storage, whether the newest epoch has its entry in `commits`.
    """

    def __init__(
        self,
        query: Query,
        runner: Runner,
        shared: SharedState,
        has_logged: Callable[[], bool],
    ) -> None:
        self._query = query
        self._runner = runner
        self._shared = shared
        self._has_logged = has_logged
        self._thread: threading.Thread | None = None

    def begin(self, run: Run) -> None:
        """Start the thread that finishes the decided epochs of this run."""
        self._thread = threading.Thread(target=partial(self._finish, run), name="tidegate-finisher", daemon=True)
        self._thread.start()

    def is_alive(self) -> bool:
        """True if it may still commit."""
        return self._thread is not None and self._thread.is_alive()

    def await_end(self, raise_failure: Callable[[], None]) -> None:
        """Wait for its running work. A sink that is not ready is retried as long as the job may wait. A commit that
        does not return is abandoned, and the next start handles its epoch. The error that ended the run is raised all
        the same, by `raise_failure`.
        """
        over_since = math.inf
        while self._thread is not None and self._thread.is_alive():
            with self._shared.changed:
                self._shared.patience.waits()  # nothing is computed any more: only a sink can take longer
            self._thread.join(_LOOK_SECONDS)
            if self._shared.patience.is_over():
                over_since = min(over_since, time.monotonic())
            if self._thread.is_alive() and time.monotonic() >= over_since + COMMIT_RETURNS_WITHIN_SECONDS:
                hangs = _hangs_in_a_sink(self._query, self._shared.finished + 1)
                _LOG.error("%s", hangs)
                raise_failure()
                raise hangs

    def await_commits(self, epoch: int) -> bool:
        """Wait for `commits/N` of the next epoch: until Spark has written it, or calls with the epoch behind it. Spark
        is asked only while a prepared epoch waits for the entry; the storage is not.
        """
        shared, pause = self._shared, _COMMIT_POLL_FIRST_SECONDS
        while True:
            with shared.changed:
                while shared.prepared <= epoch and shared.state not in STREAM_IS_OVER:
                    shared.changed.wait()
                if shared.state in STREAM_IS_OVER:
                    return False  # the finisher reads once more; a torn entry would stay for ever
                is_logged = shared.begun > epoch + 1
            if is_logged or self._has_logged():
                return True
            with shared.changed:
                shared.changed.wait(pause)
            pause = min(pause * _COMMIT_POLL_GROWTH, _COMMIT_POLL_MOST_SECONDS)

    def _finish(self, run: Run) -> None:
        try:
            self._runner.run(finish_as_they_come(self._query, run, self._shared.watch.times))
        except BaseException as error:  # noqa: BLE001 (kept, and raised at the end of the run)
            self._shared.leave(error)


def hesitate(query: Query, shared: SharedState, effect: Hesitate) -> None:
    """Wait before the next try of a sink, in any thread. Raises when a stop has waited long enough."""
    text = "sink %s, epoch %d: not ready (%s)"
    _LOG.warning(text, effect.sink, effect.epoch, effect.detail, extra={"event": "SinkNotReady"})
    end = time.monotonic() + min(0.05 * 2 ** min(effect.attempt, 10), _RETRY_SECONDS_AT_MOST)
    with shared.changed:
        shared.patience.waits()
        while (left := min(end, shared.patience.ends_at) - time.monotonic()) > 0:
            shared.changed.wait(left)
            shared.watch.refuse_if_cut(effect.epoch)
            if shared.errors and shared.watch.has_within(effect.epoch):
                raise EpochRefused("the run is ending")
        gives_up = shared.patience.is_over()
    if gives_up:
        raise TidegateError(
            Code.SINK_UNAVAILABLE,
            expected=f"sink {effect.sink} to take epoch {effect.epoch}",
            found=effect.detail or "it is not ready",
            where=str(query),
            next_step="fix the problem that the sink reports above (`tidegate check --job JOB` tries its sinks),"
            " then start again: the epoch is replayed, or committed if it is decided",
        )


def _hangs_in_a_sink(query: Query, epoch: int) -> TidegateError:
    return TidegateError(
        Code.SINK_UNAVAILABLE,
        expected=f"the sinks to take epoch {epoch}",
        found=f"a commit that has not returned {COMMIT_RETURNS_WITHIN_SECONDS:g} s after the wait ended",
        where=str(query),
        next_step="end this process, which keeps the job's locks until then; see what holds up the sink, and start"
        " again: the epoch is decided, and committed first",
    )
