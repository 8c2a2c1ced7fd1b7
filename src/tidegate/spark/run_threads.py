"""The two threads of a run together: Spark's stream thread, and the finisher that commits behind it.

They end in this order: the stream thread after its current epoch, then the finisher after its last commit. Requests for
the end come from any thread. One thread of the job waits for both.
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate.core.errors import TidegateError
from tidegate.spark.epoch_watch import EpochPhase
from tidegate.spark.finisher import Finisher
from tidegate.spark.run_state import RunEvent
from tidegate.spark.shared_state import SharedState
from tidegate.spark.stream_thread import StreamThread

_LOOK_SECONDS = 0.05


class RunThreads:
    """The threads of one run, from a request for its end to the end of both."""

    def __init__(self, shared: SharedState, stream: StreamThread, finisher: Finisher) -> None:
        self._shared = shared
        self._stream = stream
        self._finisher = finisher

    def has_ended(self) -> bool:
        """True if Spark's stream thread has ended. Stops it if the finisher has failed or an epoch takes too long;
        raises if it cannot be stopped.
        """
        if self._stream.has_ended():
            return True
        if self._stream.cut_if_overdue():
            self._stream.refuse_if_stuck()
            self._stream.cancel_tasks()
        elif self._shared.errors:
            self._stream.stop()
            self._stream.refuse_if_stuck()
        else:
            return False
        return self._stream.has_ended()

    def has_come_to_rest(self) -> bool:
        """True if Spark's stream thread and the last commits have ended, so that `await_end` will not wait."""
        if not self.has_ended():
            return False
        self._shared.happens(RunEvent.STREAM_OVER)
        return not self._finisher.is_alive()

    def may_still_write(self) -> bool:
        """True if a thread of the run may live that cannot be stopped: Spark's thread can write `commits/N`, and the
        finisher commits decided epochs.
        """
        return self._finisher.is_alive() or self._stream.may_live()

    @property
    def left_behind(self) -> TidegateError | None:
        """The error of a sink that made a cancel leave a decided epoch to the next start; None if it left
        none.
        """
        return self._shared.errors.left_behind

    @property
    def epoch_seconds(self) -> float:
        """Longest remaining time of the current epoch, including its cut-off; 0 if there is none."""
        return self._shared.watch.seconds_to_the_end()

    def keep_time(self) -> None:
        """Interrupt the current epoch if its time is over. Called from any thread, also while another thread waits."""
        if self._stream.stream is not None and self._stream.cut_if_overdue():
            self._stream.cancel_tasks()

    def limit_waiting(self, timeout_seconds: float) -> None:
        """From now on wait no longer than this for a sink that is not ready; the shortest of several limits counts."""
        with self._shared.changed:
            self._shared.patience.end_in(timeout_seconds)
            self._shared.changed.notify_all()

    def allow_waiting(self, timeout_seconds: float) -> None:
        """Wait no longer than this for the sinks of an epoch, counted from the first answer that a sink is not
        ready.
        """
        with self._shared.changed:
            self._shared.patience.allow(timeout_seconds)
            self._shared.changed.notify_all()

    def cancel(self) -> None:
        """From now on do not wait for sinks: an epoch that a sink does not take at once is left to the next start,
        without an error.
        """
        self._shared.errors.leave_unready_sinks()
        self.limit_waiting(0)

    def stop(self, timeout_seconds: float) -> None:
        """End after the current epoch. Decided epochs are finished, for at most `timeout_seconds`."""
        self.limit_waiting(timeout_seconds)
        shared = self._shared
        with shared.changed:
            shared.happens(RunEvent.END_ASKED)
            while self._is_under_way() and not shared.patience.is_over():
                shared.changed.wait(_LOOK_SECONDS)
                self._stream.cut_if_overdue()
        if shared.watch.phase is not EpochPhase.CUT:
            self._stream.stop()

    def await_end(self, raise_failure: Callable[[], None]) -> None:
        """Wait for both. Raises if Spark's thread is stuck; a finisher that hangs is abandoned (see `Finisher`)."""
        self._stream.await_end()
        self._finisher.await_end(raise_failure)

    def _is_under_way(self) -> bool:
        """True if there is a current epoch: begun, not done, with a live stream."""
        if self._shared.current is None or self._shared.errors:
            return False
        return not self._stream.has_ended()
