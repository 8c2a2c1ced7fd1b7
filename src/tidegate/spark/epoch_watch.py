"""The time of an epoch, the pause of its query before it, and its cut-off."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from enum import Enum

from tidegate.core.epoch_time import MOST_TIMES, time_after
from tidegate.core.errors import Code, TidegateError
from tidegate.core.ledger import Query
from tidegate.core.levels import AT_THE_NEXT_START, Level

CUT_ENDS_WITHIN_SECONDS = 30.0
"""Seconds in which a cut-off or stopped stream ends: Spark kills a worker that does not react to a cancelled task after
two seconds, and then the stream ends. If it takes longer, it hangs where nothing can cancel it: in a disk, or in a
sink's own code.
"""


class EpochPhase(Enum):
    """The phase of the current epoch."""

    OUTSIDE = "no epoch was let in"
    COMPUTING = "its tasks run"
    PREPARING = "its tasks have ended, its record is being written"
    CUT = "it took too long: it must not return to Spark"


class EpochRefused(Exception):
    """Leaves `foreachBatch`. It is short: a long traceback would overflow the stack of Spark's stream thread."""


class EpochWatch:
    """The times of one run's epochs. Every call holds the run's lock, so an epoch is either prepared or cut off."""

    def __init__(self, timeout_seconds: float, min_pause_seconds: float) -> None:
        self.phase = EpochPhase.OUTSIDE
        self.was_computed = False
        """True if the tasks of the last epoch have ended: its rows may be visible since then."""
        self.times: Mapping[int, float] = {}
        """The limits in seconds of epochs that were cut off before; all others have the timeout."""
        self.seconds = timeout_seconds
        """The limit of the last epoch."""
        self._timeout_seconds = timeout_seconds
        self._min_pause_seconds = min_pause_seconds
        self._epoch = -1
        self._overdue_at = 0.0
        self._may_begin_at = 0.0
        self._cut_at = math.inf
        self._end_asked_at = math.inf

    @property
    def let_in_newest(self) -> int:
        """The newest epoch whose tasks may have begun; -1 before the first."""
        return self._epoch

    def rest_seconds(self) -> float:
        """Seconds left of the pause before the next epoch may begin."""
        return self._may_begin_at - time.monotonic()

    def let_in(self, epoch: int) -> None:
        """The epoch has waited for older ones, and begins."""
        self.phase, self._epoch, self.was_computed = EpochPhase.COMPUTING, epoch, False
        self.seconds = self.times.get(epoch, self._timeout_seconds)
        self._overdue_at = time.monotonic() + self.seconds

    def computed(self) -> None:
        """Its tasks have ended."""
        self.refuse_if_cut(self._epoch)
        self.phase, self.was_computed = EpochPhase.PREPARING, True

    def prepared(self) -> None:
        """Its record is durable. Raises if the epoch was cut off before: the record then does not count, because Spark
        never writes the entry to `commits` that would choose it.
        """
        self.refuse_if_cut(self._epoch)
        self.phase = EpochPhase.OUTSIDE

    def left(self) -> None:
        """The epoch has returned to Spark, with or without success."""
        if self.phase is not EpochPhase.CUT:
            self.phase = EpochPhase.OUTSIDE

    def done(self) -> None:
        """The commits of an epoch have ended."""
        self._may_begin_at = time.monotonic() + self._min_pause_seconds

    def cut_if_overdue(self) -> int | None:
        """Cut off the current epoch after its time is over. Returns its number, once."""
        if self.phase not in (EpochPhase.COMPUTING, EpochPhase.PREPARING) or time.monotonic() < self._overdue_at:
            return None
        self.phase, self._cut_at = EpochPhase.CUT, time.monotonic()
        return self._epoch

    def end(self) -> None:
        """Called when Spark has received the request to end the stream."""
        self._end_asked_at = min(self._end_asked_at, time.monotonic())

    def is_stuck(self) -> bool:
        """True if the stream should have ended long ago, after its epoch was cut off or it was stopped. Counted from
        then: after a suspend of the machine the cut-off is late, and the full time still follows it.
        """
        since = self._cut_at if self.phase is EpochPhase.CUT else self._end_asked_at
        return time.monotonic() >= since + CUT_ENDS_WITHIN_SECONDS

    def has_within(self, epoch: int) -> bool:
        """True if this epoch has begun and is not prepared yet: a wait for its sink is then in its thread."""
        return epoch == self._epoch and self.phase in (EpochPhase.COMPUTING, EpochPhase.PREPARING)

    def refuse_if_cut(self, epoch: int) -> None:
        """Raise in the thread of an epoch that was cut off."""
        if self.phase is EpochPhase.CUT and epoch == self._epoch:
            raise EpochRefused(f"epoch {epoch} was cut off")

    def seconds_to_the_end(self) -> float:
        """Longest remaining time of the current epoch, including its cut-off; 0 if there is none."""
        return 0.0 if self.phase is EpochPhase.OUTSIDE else self.seconds + CUT_ENDS_WITHIN_SECONDS

    def timeout_error(self, epoch: int, query: Query) -> TidegateError:
        """The error of an epoch that was cut off, with the time of its next try."""
        before = "checkpointing.timeout"
        if epoch in self.times:
            before += f" is {self._timeout_seconds:g} s; it was cut off before"
        return TidegateError(
            Code.EPOCH_TIMEOUT,
            expected=f"epoch {epoch} to be prepared within {self.seconds:g} s ({before})",
            found="its tasks or sinks had not ended",
            where=str(query),
            next_step=f"{self._next_time(query)}; see what holds it up: a sink, a slow function, or too many rows for"
            " one epoch (max_rows, maxFilesPerTrigger); or raise checkpointing.timeout",
        )

    def _next_time(self, query: Query) -> str:
        """The effect of another try. At-most-once has none: the next start begins at the newest input."""
        again = AT_THE_NEXT_START[query.weakest]
        following = time_after(self._timeout_seconds, self.seconds)
        if query.weakest is Level.AT_MOST_ONCE:
            return f"start again ({again})"
        if following > self.seconds:
            return f"start again: the next start gives this epoch {following:g} s ({again})"
        return f"this epoch has had {MOST_TIMES:g} times checkpointing.timeout, and gets no more ({again})"

    def stuck_error(self, where: str) -> TidegateError:
        """The reason why the process must end."""
        what = "the query, which was stopped," if self._epoch < 0 else f"epoch {self._epoch}, which was cancelled,"
        return TidegateError(
            Code.EPOCH_STUCK,
            expected=f"{what} to end within {CUT_ENDS_WITHIN_SECONDS:g} s",
            found=f"Spark's stream thread still runs ({self.phase.value}), and could yet write into the checkpoint",
            where=where,
        )
