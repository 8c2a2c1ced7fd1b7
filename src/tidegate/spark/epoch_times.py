"""When the phases of the epochs under way have ended, by what a run passes on its way. No decision depends on them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from tidegate.operate.done_checkpoint import TimedPhase

_END: Final = {
    "compute.after": TimedPhase.PRE_COMMIT,
    "sync.after": TimedPhase.SYNC,
    "prepared.after": TimedPhase.PREPARED,
    "commits.seen.after": TimedPhase.COMMITS,
    "decision.after": TimedPhase.DECIDED,
    "done.before": TimedPhase.COMMIT,
}
"""The phase that ends at each of these places of the protocol. The tasks compute and pre-commit in one action; DONE
ends when the epoch is done.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochTimes:
    """The times of a done epoch in milliseconds: from Spark's call on, from its entry in `commits` on (None if that was
    not seen), and of each phase. `read`: the rows that its sources have given; None if that is not known.
    """

    total_ms: float
    commit_delay_ms: float | None
    phases: dict[TimedPhase, float]
    read: int | None = None


class EpochClock:
    """Takes the times of a query's epochs, by the monotonic clock. An epoch that is not done has nothing else here than
    its few times; if it runs again, they begin anew. Threads may share it: each step is one change of a dict.
    """

    def __init__(self) -> None:
        self._begun: dict[int, float] = {}
        self._let_in: dict[int, float] = {}
        self._pre_commit: dict[int, float] = {}
        self._read: dict[int, int | None] = {}
        self._ends: dict[int, dict[TimedPhase, float]] = {}

    def begins(self, epoch: int) -> None:
        """Spark calls with the epoch."""
        self._ends[epoch], self._begun[epoch] = {}, time.monotonic()

    def let_in(self, epoch: int) -> None:
        """The epoch waits no longer: its tasks begin."""
        self._let_in[epoch] = time.monotonic()

    def pre_committed(self, epoch: int, longest_seconds: float) -> None:
        """Its tasks have ended. `longest_seconds`: what the slowest of them has needed to pre-commit."""
        self._pre_commit[epoch] = longest_seconds

    def has_read(self, epoch: int, rows: int | None) -> None:
        """Its sources have given so many rows; None if that is not known."""
        self._read[epoch] = rows

    def passes(self, point: str, epoch: int | None) -> None:
        """The run passes a place of the protocol. The first time counts: the decision is looked for again."""
        phase = _END.get(point)
        if phase is not None and epoch is not None and (ends := self._ends.get(epoch)) is not None:
            ends.setdefault(phase, time.monotonic())

    def seconds_so_far(self, epoch: int) -> float | None:
        """How long the epoch has taken since it began; None if it has not begun in this process."""
        begun = self._begun.get(epoch)
        return None if begun is None else time.monotonic() - begun

    def prepared_seconds(self) -> float | None:
        """How long the oldest epoch that is prepared and not done has been prepared; None if there is none."""
        prepared = [ends[TimedPhase.PREPARED] for ends in list(self._ends.values()) if TimedPhase.PREPARED in ends]
        return time.monotonic() - min(prepared) if prepared else None

    def done(self, epoch: int) -> EpochTimes | None:
        """The times of the epoch, which is done now, and forgotten here; None if it has not begun in this process."""
        now, begun, ends = time.monotonic(), self._begun.pop(epoch, None), self._ends.pop(epoch, {})
        let_in, pre_commit = self._let_in.pop(epoch, None), self._pre_commit.pop(epoch, 0.0)
        read = self._read.pop(epoch, None)
        if begun is None:
            return None
        seen = ends.get(TimedPhase.COMMITS)
        return EpochTimes(
            total_ms=(now - begun) * 1000,
            commit_delay_ms=None if seen is None else (now - seen) * 1000,
            phases=_phases(let_in, pre_commit, {**ends, TimedPhase.DONE: now}),
            read=read,
        )


def _phases(let_in: float | None, pre_commit: float, ends: dict[TimedPhase, float]) -> dict[TimedPhase, float]:
    """The milliseconds of each phase; none if one is missing, as when another run has finished the epoch.

    A phase that was over before the one in front of it has taken no time: the next epoch may decide this one before
    the finisher looks.
    """
    computed = ends.get(TimedPhase.PRE_COMMIT)
    if let_in is None or computed is None or len(ends) < len(TimedPhase) - 1:
        return {}
    known = {**ends, TimedPhase.COMPUTE: computed - pre_commit}
    reached = [let_in]
    for phase in TimedPhase:
        reached.append(max(reached[-1], known[phase]))
    return {
        phase: round((end - begin) * 1000, 2) for phase, (begin, end) in zip(TimedPhase, pairwise(reached), strict=True)
    }
