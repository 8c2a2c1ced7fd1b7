"""The supervisor's check whether a living driver makes progress."""

from __future__ import annotations

from tidegate.operate.beat import Beat


class ProgressWatch:
    """Decides whether a driver makes progress. It measures time only with its own clock, as clocks may differ and jump.

    Until the job runs, the driver's messages are its progress. The driver reports each step of its start once, so a
    start that repeats its steps makes no progress. Each step has at least a minute, so that a short timeout does not
    end every start.

    Once the job runs, new beats are the progress; a beat that is missing is none. An epoch has a time limit of its own,
    after which the driver cancels it; until then the driver may compute, as long as new beats arrive. The time between
    two checks counts as one check, however long it was: if the machine was suspended, the supervisor has observed
    nothing.
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
        """Called when the driver has sent a message. A message counts as progress."""
        self._moved()

    def runs(self) -> None:
        """Called when the driver has reported that its job runs. From now on the progress in its beats counts, too."""
        self._runs = True

    def rests(self, seconds: float) -> None:
        """Called when a query pauses before its next run: for these `seconds` the driver need not make progress."""
        self._idle_seconds = min(self._idle_seconds, -seconds)

    def look(self, beat: Beat | None, now: float) -> bool:
        """True if the driver has stalled. `beat`: the driver's newest beat, or None. `now`: a time in seconds."""
        passed = min(now - self._looked_at, _LONGEST_LOOK_SECONDS)
        self._idle_seconds += passed
        self._silent_seconds += passed
        self._looked_at = now
        if beat is not None and beat.at != self._beat_at:
            self._beat_at, self._silent_seconds, self._epoch_seconds = beat.at, 0.0, beat.epoch_seconds
        if self._runs and (beat is None or beat.progress_at != self._progress_at):
            self._moved()
            self._progress_at = None if beat is None else beat.progress_at
        if beat is not None and beat.state.is_an_end:  # after its job the program may do anything
            return False
        return self.timeout_seconds > 0 and self.allowed_seconds <= self._idle_seconds

    @property
    def allowed_seconds(self) -> float:
        """How long the driver may make no progress now, in seconds."""
        if not self._runs:
            return max(self.timeout_seconds, _START_SECONDS)
        computes = self._epoch_seconds > 0 and self._silent_seconds < self.timeout_seconds
        return max(self.timeout_seconds, self._epoch_seconds + _MARGIN_SECONDS if computes else 0.0)

    def _moved(self) -> None:
        self._idle_seconds = min(self._idle_seconds, 0.0)


_LONGEST_LOOK_SECONDS = 2.0
_START_SECONDS = 60.0
_MARGIN_SECONDS = 60.0
"""Time beyond the limit of an epoch: the driver reports the failed epoch and begins the next try."""
