"""The states of a run of a query, and its events: one table, total and closed.

An event that a state does not allow raises `IllegalTransition`. `ARCHITECTURE.md` shows the table as this module prints
it.
"""

from __future__ import annotations

from enum import Enum

from tidegate.core.states import Table


class RunState(Enum):
    """The progress of a run to its end."""

    OPEN = "open"
    ENDING = "ending"
    LOST = "lost"
    STUCK = "stuck"
    ENDED = "ended"
    STOPPED = "stopped"
    LOST_LEFT = "left, lost"
    STUCK_LEFT = "left, stuck"


class RunEvent(Enum):
    """The events of a run."""

    START_REFUSED = "Spark refuses to start it"
    START_LOST = "Spark's start does not return"
    END_ASKED = "its end is requested"
    THREAD_STUCK = "Spark's thread does not end"
    STREAM_OVER = "the wait for Spark's thread is over"


_OPEN, _ENDING, _LOST, _STUCK, _ENDED, _STOPPED, _LOST_LEFT, _STUCK_LEFT = RunState
_ = None

RUN = Table(
    RunState,
    RunEvent,
    {
        #            start refused, lost  end asked    stuck        over
        _OPEN: (_ENDING, _LOST, _ENDING, _STUCK, _ENDED),
        _ENDING: (_ENDING, _LOST, _ENDING, _STUCK, _STOPPED),
        _LOST: (_, _, _LOST, _, _LOST_LEFT),
        _STUCK: (_, _, _STUCK, _STUCK, _STUCK_LEFT),
        _ENDED: (_, _, _STOPPED, _STUCK_LEFT, _ENDED),
        _STOPPED: (_, _, _STOPPED, _STUCK_LEFT, _STOPPED),
        _LOST_LEFT: (_, _, _LOST_LEFT, _, _LOST_LEFT),
        _STUCK_LEFT: (_, _, _STUCK_LEFT, _STUCK_LEFT, _STUCK_LEFT),
    },
)
"""A run. A lost or stuck run stays so for good: it keeps everything that the job holds."""

_MEANINGS = {
    RunState.OPEN: "takes epochs, now or when Spark has started",
    RunState.ENDING: "its end was requested, or Spark refused it: takes no other epoch",
    RunState.LOST: "Spark's start did not return: its thread may live, and its state is unknown",
    RunState.STUCK: "Spark's thread has not ended in time: only the end of the process ends it",
    RunState.ENDED: "Spark's thread has ended by itself; the finisher commits decided epochs, and ends",
    RunState.STOPPED: "the same after a request to end",
    RunState.LOST_LEFT: "the same for a lost one, which keeps what the job holds as long as its JVM lives",
    RunState.STUCK_LEFT: "the same for a stuck one, which keeps what the job holds as long as the process lives",
}

TO_END = frozenset(RunState) - {RunState.OPEN, RunState.ENDED}
"""Its end was requested: an error that Spark then reports for its query is no failure."""

STREAM_IS_OVER = frozenset({RunState.ENDED, RunState.STOPPED, RunState.LOST_LEFT, RunState.STUCK_LEFT})
"""The finisher finishes the existing epochs, and waits for no other."""

OUT_OF_REACH = frozenset({RunState.STUCK, RunState.STUCK_LEFT})
"""The wait for Spark's thread was given up: the thread may write as long as the process lives."""

START_WAS_LOST = frozenset({RunState.LOST, RunState.LOST_LEFT})
"""Unknown whether Spark's thread exists."""


def markdown_table() -> str:
    """The table of this module and the meanings of its states, for the documentation."""
    meanings = [f"| **{state.value}** | {_MEANINGS[state]} |" for state in RunState]
    return "\n".join([RUN.markdown("run of a query"), "", "| run of a query | meaning |", "|---|---|", *meanings])
