"""The state that the threads of one run of a query share.

A run has three threads. Spark's stream thread calls for each epoch (`epoch_thread`), the finisher commits after it
(`finisher`), and the watching thread of the job starts both (`query_run`) and ends both (`run_threads`). Two others
only read and signal: the job's clock, which cuts off an epoch that takes too long, and any thread that requests the end
of the job. All shared state is here, under one lock. No call that could hang is made under it.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from tidegate.core.tolerance import EpochFault
from tidegate.spark.epoch_watch import EpochRefused, EpochWatch
from tidegate.spark.patience import Patience
from tidegate.spark.run_errors import RunErrors
from tidegate.spark.run_state import RUN, TO_END, RunEvent, RunState


@dataclass(frozen=True, slots=True)
class FailedEpoch:
    """The epoch that has failed in a run.

    `fault`: the reason, if another try may succeed; else None. `in_computing`: True if the query's own work failed,
    before any row could become visible.
    """

    epoch: int
    fault: EpochFault | None
    in_computing: bool


class SharedState:
    """The shared state of one run's threads. `changed` is its lock, and wakes waiting threads after a change."""

    def __init__(self, watch: EpochWatch) -> None:
        self.changed = threading.Condition()
        self.watch = watch
        self.patience = Patience()
        self.errors = RunErrors()
        self.failed: FailedEpoch | None = None
        self.failed_at: float | None = None
        """When the run began to end with an error, by the monotonic clock; None before."""
        self.current: int | None = None
        """The epoch that has begun and is not done."""
        self.begun = self.prepared = self.finished = -1
        """The newest epoch of which this is so."""
        self._state = RunState.OPEN

    @property
    def state(self) -> RunState:
        """The state of the run."""
        return self._state

    @property
    def is_to_end(self) -> bool:
        """True if the end of the run was requested, or if the run did not start."""
        return self._state in TO_END

    @property
    def takes_no_epoch(self) -> bool:
        """True if the run ends, by a request or by an error."""
        return self.is_to_end or bool(self.errors)

    def happens(self, event: RunEvent) -> None:
        """Change the state of the run by an event, and wake all threads that wait for it."""
        with self.changed:
            self._state = RUN.next(self._state, event)
            self.changed.notify_all()

    def leave(self, error: BaseException | None) -> None:
        """The current epoch, if there is one, has ended, or the run with this error."""
        with self.changed:
            if error is not None:
                self.fails()
                self.errors.add(error)
            self.current = None
            self.changed.notify_all()

    def fails(self) -> None:
        """The run ends with an error, which is not formed yet. The first call counts."""
        with self.changed:
            self.failed_at = time.monotonic() if self.failed_at is None else self.failed_at

    def refuse_if_ending(self) -> None:
        """Raise EpochRefused if the run ends, by a request or by an error. Called in the thread of an epoch that has
        not begun to compute.
        """
        if self.takes_no_epoch:
            raise EpochRefused("the run is ending")
