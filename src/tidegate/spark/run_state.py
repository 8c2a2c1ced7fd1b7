"""What a run of a query can be, and what can happen to it: one table, total and closed.

An event that a state does not allow raises `IllegalTransition`. `ARCHITECTURE.md` shows the table as this module
prints it.
"""

from __future__ import annotations

from enum import Enum

from tidegate.core.states import Table


class RunState(Enum):
    """How far a run is on the way to its end."""

    OPEN = "open"
    ENDING = "ending"
    LOST = "lost"
    STUCK = "stuck"
    ENDED = "ended"
    STOPPED = "stopped"
    LOST_LEFT = "left, lost"
    STUCK_LEFT = "left, stuck"


class RunEvent(Enum):
    """What can happen to a run."""

    START_REFUSED = "Spark refuses to start it"
    START_LOST = "Spark's start gives no answer"
    END_ASKED = "it is asked to end"
    THREAD_STUCK = "Spark's thread does not end"
    STREAM_OVER = "Spark's thread is waited for no longer"


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
"""A run. What is lost or stuck stays so for good: it keeps what the job holds, whatever else ends."""

_MEANINGS = {
    RunState.OPEN: "takes epochs, now or when Spark has started",
    RunState.ENDING: "was asked to end, or was refused by Spark: takes no other epoch",
    RunState.LOST: "Spark's start gave no answer: its thread may live, and cannot be asked",
    RunState.STUCK: "Spark's thread has not ended in time: only the end of the process ends it",
    RunState.ENDED: "Spark's thread has ended by itself; the finisher commits what is decided, and ends",
    RunState.STOPPED: "the same for a run that was to end",
    RunState.LOST_LEFT: "the same for a lost one, which keeps what the job holds as long as its JVM lives",
    RunState.STUCK_LEFT: "the same for a stuck one, which keeps what the job holds as long as the process lives",
}

TO_END = frozenset(RunState) - {RunState.OPEN, RunState.ENDED}
"""It was to end, whatever ends it: what Spark says of its query then is no failure."""

STREAM_IS_OVER = frozenset({RunState.ENDED, RunState.STOPPED, RunState.LOST_LEFT, RunState.STUCK_LEFT})
"""The finisher finishes what is there, and waits for no other epoch."""

OUT_OF_REACH = frozenset({RunState.STUCK, RunState.STUCK_LEFT})
"""Spark's thread was given up: it may write for as long as the process lives."""

START_WAS_LOST = frozenset({RunState.LOST, RunState.LOST_LEFT})
"""Nothing is known of Spark's thread, or whether there is one."""


def markdown_table() -> str:
    """The table of this module and what its states mean, for the documentation."""
    meanings = [f"| **{state.value}** | {_MEANINGS[state]} |" for state in RunState]
    return "\n".join(
        [RUN.markdown("run of a query"), "", "| run of a query | what that means |", "|---|---|", *meanings]
    )
