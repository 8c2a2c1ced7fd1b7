"""The states of an epoch and of a sink's transaction, and their events: two tables, total and closed.

An event that a state does not allow raises `IllegalTransition` and changes nothing. `ARCHITECTURE.md` shows both tables
as this module prints them.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from enum import Enum
from typing import Generic, TypeVar

from tidegate.core.records import Evidence, Outcome


class EpochState(Enum):
    """The progress of an epoch, by its durable records alone."""

    NEW = "new"
    STARTED = "started"
    PREPARED = "prepared"
    LOGGED = "logged"
    DECIDED = "decided"
    DONE = "done"


class EpochEvent(Enum):
    """The events that change the state of an epoch."""

    OFFSETS_WRITTEN = "Spark writes offsets/N"
    PREPARED_WRITTEN = "prepared/N.R is durable"
    COMMITS_WRITTEN = "Spark writes commits/N"
    DECISION_WRITTEN = "decided/N is durable"
    SINKS_COMMITTED = "every sink has committed"
    RUN_ENDED = "its run ends"


class TransactionState(Enum):
    """The state of one transaction of a sink."""

    OPEN = "open"
    PREPARED = "prepared"
    COMMITTING = "committing"
    SUSPECT = "suspect"
    FENCED = "fenced"
    LOST = "lost"
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNDECIDABLE = "undecidable"


class TransactionEvent(Enum):
    """The events of one transaction of a sink."""

    PRE_COMMITTED = "pre-commit"
    ATTEMPT_ENDED = "abort"
    EPOCH_DECIDED = "decided"
    SAYS_COMMITTED = "committed"
    SAYS_ALREADY = "already"
    SAYS_RETRY = "retry"
    SAYS_LOST = "lost"
    SAYS_UNKNOWN = "unknown"
    FENCE_RAISED = "fenced"
    EVIDENCE_PRESENT = "evidence present"
    EVIDENCE_ABSENT = "evidence absent"
    EVIDENCE_UNKNOWN = "evidence unknown"
    EVIDENCE_OTHER = "evidence of others"


class IllegalTransition(Exception):
    """An event that the state does not allow: a fault of the protocol code itself."""


StateT = TypeVar("StateT", bound=Enum)
EventT = TypeVar("EventT", bound=Enum)


class Table(Generic[StateT, EventT]):
    """A transition table with one row per state and one column per event, every cell filled."""

    def __init__(
        self, states: type[StateT], events: type[EventT], rows: Mapping[StateT, tuple[StateT | None, ...]]
    ) -> None:
        missing = [state for state in states if len(rows.get(state, ())) != len(events)]
        if missing:
            raise IllegalTransition(f"the table is not total: rows {missing} of {states.__name__}")
        self._events = events
        self._cells = {
            (state, event): cell for state in states for event, cell in zip(events, rows[state], strict=True)
        }
        self._states = states

    def next(self, state: StateT, event: EventT) -> StateT:
        """The state after `event`."""
        following = self._cells[state, event]
        if following is None:
            raise IllegalTransition(f"{event.value!r} cannot happen in state {state.value!r}")
        return following

    def markdown(self, title: str) -> str:
        """The table as Markdown; a dot stands for an impossible event."""
        head = f"| {title} | " + " | ".join(str(event.value) for event in self._events) + " |"
        rule = "|---" * (len(self._events) + 1) + "|"
        return "\n".join([head, rule, *(self._row(state) for state in self._states)])

    def _row(self, state: StateT) -> str:
        cells = [self._cells[state, event] for event in self._events]
        return f"| **{state.value}** | " + " | ".join("." if c is None else str(c.value) for c in cells) + " |"


_NEW, _STARTED, _PREPARED, _LOGGED, _DECIDED, _DONE = EpochState
_ = None

EPOCH = Table(
    EpochState,
    EpochEvent,
    {
        #           offsets   prepared   commits  decided   committed  run ends
        _NEW: (_STARTED, _, _, _, _, _NEW),
        _STARTED: (_, _PREPARED, _, _, _, _STARTED),
        _PREPARED: (_, _PREPARED, _LOGGED, _, _, _STARTED),
        _LOGGED: (_, _LOGGED, _LOGGED, _DECIDED, _, _LOGGED),
        _DECIDED: (_, _DECIDED, _DECIDED, _DECIDED, _DONE, _DECIDED),
        _DONE: (_, _DONE, _DONE, _DONE, _DONE, _DONE),
    },
)
"""An epoch. A second run may prepare an epoch that is logged, decided or done: its record is then one too many."""

_OPEN, _PRE, _COMMITTING, _SUSPECT, _FENCED, _LOST, _COMMITTED, _ABORTED, _UNDECIDABLE = TransactionState

TRANSACTION = Table(
    TransactionState,
    TransactionEvent,
    {
        # pre-commit, abort, decided; committed, already, retry, lost, unknown;
        # fenced; evidence present, absent, unknown, of others
        _OPEN: (_PRE, _ABORTED, _, _, _, _, _, _, _, _, _, _, _),
        _PRE: (_, _ABORTED, _COMMITTING, _, _, _, _, _, _, _, _, _, _),
        _COMMITTING: (_, _, _, _COMMITTED, _COMMITTED, _COMMITTING, _SUSPECT, _UNDECIDABLE, _, _, _, _, _),
        _SUSPECT: (_, _, _, _, _, _, _, _, _FENCED, _, _, _, _),
        _FENCED: (_, _, _, _, _, _, _, _, _, _COMMITTED, _LOST, _UNDECIDABLE, _UNDECIDABLE),
        _LOST: (_, _, _, _COMMITTED, _COMMITTED, _COMMITTING, _SUSPECT, _UNDECIDABLE, _, _, _, _, _),
        _COMMITTED: (_, _, _COMMITTED, _COMMITTED, _COMMITTED, _, _, _, _, _, _, _, _),
        _ABORTED: (_, _ABORTED, _COMMITTING, _, _, _, _, _, _, _, _, _, _),
        _UNDECIDABLE: (_, _, _, _, _, _, _, _, _, _, _, _, _),
    },
)
"""A transaction. An aborted one may turn out to be decided (its run wrote `commits/N` late). It is then found lost and
written again from the journal. So an abort never deletes a journal.
"""

ANSWERED: Mapping[Outcome, TransactionEvent] = {
    Outcome.COMMITTED: TransactionEvent.SAYS_COMMITTED,
    Outcome.ALREADY: TransactionEvent.SAYS_ALREADY,
    Outcome.RETRY: TransactionEvent.SAYS_RETRY,
    Outcome.LOST: TransactionEvent.SAYS_LOST,
    Outcome.UNKNOWN: TransactionEvent.SAYS_UNKNOWN,
}
SHOWN: Mapping[Evidence, TransactionEvent] = {
    Evidence.PRESENT: TransactionEvent.EVIDENCE_PRESENT,
    Evidence.ABSENT: TransactionEvent.EVIDENCE_ABSENT,
    Evidence.UNKNOWN: TransactionEvent.EVIDENCE_UNKNOWN,
    Evidence.OTHER: TransactionEvent.EVIDENCE_OTHER,
}


class AtRecovery(Enum):
    """The action of recovery for an epoch."""

    NOTHING = "nothing: Spark starts it"
    RUN_AGAIN = "abort what older runs hold open; Spark runs it again with the same input"
    DECIDE_AND_FINISH = "decide by offsets and state ids, restore Spark's log, commit or redo, write done"
    FINISH = "restore Spark's log, commit or redo, write done"
    CLEAN = "remove its journals and stages"


FINISHING = frozenset({AtRecovery.DECIDE_AND_FINISH, AtRecovery.FINISH})
"""The epochs that recovery brings to *done* before Spark starts."""

AT_RECOVERY: Mapping[EpochState, AtRecovery] = {
    EpochState.NEW: AtRecovery.NOTHING,
    EpochState.STARTED: AtRecovery.RUN_AGAIN,
    EpochState.PREPARED: AtRecovery.RUN_AGAIN,
    EpochState.LOGGED: AtRecovery.DECIDE_AND_FINISH,
    EpochState.DECIDED: AtRecovery.FINISH,
    EpochState.DONE: AtRecovery.CLEAN,
}


def epoch_state(
    epoch: int, *, finished: int, logged: int, decided: Set[int], prepared: Set[int], started: Set[int]
) -> EpochState:
    """The state of an epoch by its durable records. The furthest one counts, even if earlier ones were lost.

    `finished`: the newest finished epoch. `logged`: the newest epoch that Spark's commit log or a decision shows.
    """
    if epoch <= finished:
        return EpochState.DONE
    if epoch in decided:
        return EpochState.DECIDED
    if epoch <= logged:
        return EpochState.LOGGED
    if epoch in prepared:
        return EpochState.PREPARED
    return EpochState.STARTED if epoch in started else EpochState.NEW


def markdown_table() -> str:
    """All tables of this module, for the documentation."""
    recovery = [f"| **{state.value}** | {AT_RECOVERY[state].value} |" for state in EpochState]
    return "\n\n".join(
        [
            EPOCH.markdown("epoch"),
            TRANSACTION.markdown("transaction"),
            "\n".join(["| epoch found at recovery | action |", "|---|---|", *recovery]),
        ]
    )
