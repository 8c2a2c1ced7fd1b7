"""Whether a driver that is alive still gets on: its progress, as the supervisor sees it."""

from __future__ import annotations

from tidegate.operate.beat import Beat


class ProgressWatch:
    """Judges by what it has seen itself: clocks of two processes may differ, and jump.

    Until the job runs, the driver's messages are its progress: it tells each step of its start once, so that one which
    goes round in a circle stands still. It has a minute for each at least: a short timeout must not end every start.
    From then on its beat is its progress. A beat that was never seen says nothing. An epoch that is computed has a time
    of its own, after which the driver cuts it off: it may take that long, as long as new beats come. Time that passed
    between two looks counts as one look: a supervisor that was stopped along with the driver, as when a laptop
    sleeps, has not watched.
    """

    def __init__(self, timeout_seconds: float, now: float) -> None:
        self.timeout_seconds = timeout_seconds
        self._looked_at = now
        self._idle_seconds = 0.0
        self._runs = False
        self._progress_at: float | None = None
        self._beat_at: float | None = None
        self._silent_seconds = 0.0
        self._epoch_seconds = 0.0

    def heard(self) -> None:
        """The driver has said something."""
        self._moved()

    def runs(self) -> None:
        """The driver has said that its job runs."""
        self._runs = True

    def rests(self, seconds: float) -> None:
        """A query waits so long for its next run, and its job may have nothing else to do."""
        self._idle_seconds = min(self._idle_seconds, -seconds)

    def look(self, beat: Beat | None, now: float) -> bool:
        """Whether the driver has stalled. `beat` is its own newest one, None while there is none."""
        passed = min(now - self._looked_at, _LONGEST_LOOK_SECONDS)
        self._idle_seconds += passed
        self._silent_seconds += passed
        self._looked_at = now
        if beat is not None and beat.at != self._beat_at:
            self._beat_at, self._silent_seconds, self._epoch_seconds = beat.at, 0.0, beat.epoch_seconds
        if self._runs and (beat is None or beat.progress_at != self._progress_at):
            self._moved()
            self._progress_at = None if beat is None else beat.progress_at
        if beat is not None and beat.state.is_an_end:  # what the program does after its job is its own business
            return False
        return self.timeout_seconds > 0 and self.allowed_seconds <= self._idle_seconds

    @property
    def allowed_seconds(self) -> float:
        """How long the driver may stand still now."""
        if not self._runs:
            return max(self.timeout_seconds, _START_SECONDS)
        computes = self._epoch_seconds > 0 and self._silent_seconds < self.timeout_seconds
        return max(self.timeout_seconds, self._epoch_seconds + _MARGIN_SECONDS if computes else 0.0)

    def _moved(self) -> None:
        self._idle_seconds = min(self._idle_seconds, 0.0)


_LONGEST_LOOK_SECONDS = 2.0
_START_SECONDS = 60.0
_MARGIN_SECONDS = 60.0
"""What a driver has beyond the time of an epoch, to tell that the epoch has failed, and to begin the next try."""
