"""What the threads of one run of a query know of each other.

Three threads meet in a run. Spark's stream thread calls in with each epoch (`epoch_thread`), the finisher commits
behind it (`finisher`), and the thread that watches the job starts and ends both (`query_run`). Two further ones only
look in: the job's clock, which cuts off an epoch that takes too long, and whoever wants the job to end. All that one of
them knows of another stands here, under one lock, and nothing is done under it that could hang.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from tidegate.core.tolerance import EpochFault
from tidegate.spark.epoch_watch import EpochRefused, EpochWatch
from tidegate.spark.patience import Patience
from tidegate.spark.run_errors import RunErrors
from tidegate.spark.run_state import RUN, TO_END, RunEvent, RunState


@dataclass(frozen=True, slots=True)
class FailedEpoch:
    """The epoch that has failed in a run. `fault`: why, where another try may go better. `in_computing`: in what the
    query itself does, before any of its rows could be shown."""

    epoch: int
    fault: EpochFault | None
    in_computing: bool


class SharedState:
    """What the threads of one run know of each other. `changed` is its lock, and wakes whoever waits for a change."""

    def __init__(self, watch: EpochWatch) -> None:
        self.changed = threading.Condition()
        self.watch = watch
        self.patience = Patience()
        self.errors = RunErrors()
        self.failed: FailedEpoch | None = None
        self.current: int | None = None
        """The epoch that has begun and is not done."""
        self.begun = self.prepared = self.finished = -1
        """The newest epoch of which this is so."""
        self._state = RunState.OPEN

    @property
    def state(self) -> RunState:
        """Where the run stands."""
        return self._state

    @property
    def is_to_end(self) -> bool:
        """Whether somebody has wanted it to, or it did not start."""
        return self._state in TO_END

    @property
    def takes_no_epoch(self) -> bool:
        """Whether the run ends, on purpose or by an error."""
        return self.is_to_end or bool(self.errors)

    def happens(self, event: RunEvent) -> None:
        """Note it, and wake whoever waits."""
        with self.changed:
            self._state = RUN.next(self._state, event)
            self.changed.notify_all()

    def leave(self, error: BaseException | None) -> None:
        """The epoch under way, if there is one, has ended, or the run with this error."""
        with self.changed:
            if error is not None:
                self.errors.add(error)
            self.current = None
            self.changed.notify_all()

    def refuse_if_ending(self) -> None:
        """Raise in the thread of an epoch that is not to go on."""
        if self.takes_no_epoch:
            raise EpochRefused("the run is ending")
