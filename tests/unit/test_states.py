"""The tables of states are total and closed, and say what recovery does."""

from __future__ import annotations

from itertools import product

import pytest

from tidegate.core.records import Evidence, Outcome
from tidegate.core.states import (
    ANSWERED,
    AT_RECOVERY,
    EPOCH,
    FINISHING,
    SHOWN,
    TRANSACTION,
    AtRecovery,
    EpochEvent,
    EpochState,
    IllegalTransition,
    Table,
    TransactionEvent,
    TransactionState,
    epoch_state,
    markdown_table,
)


def test_every_answer_of_a_sink_has_a_next_state_while_committing() -> None:
    for outcome, state in product(Outcome, (TransactionState.COMMITTING, TransactionState.LOST)):
        assert TRANSACTION.next(state, ANSWERED[outcome]) in TransactionState


def test_every_evidence_has_a_next_state_after_the_fence_and_none_before() -> None:
    for evidence in Evidence:
        assert TRANSACTION.next(TransactionState.FENCED, SHOWN[evidence]) in TransactionState
        with pytest.raises(IllegalTransition):
            TRANSACTION.next(TransactionState.SUSPECT, SHOWN[evidence])


def test_only_absent_evidence_behind_a_fence_makes_a_transaction_lost() -> None:
    ways = [
        (state, event)
        for state, event in product(TransactionState, TransactionEvent)
        if follows(state, event) is TransactionState.LOST
    ]
    assert ways == [(TransactionState.FENCED, TransactionEvent.EVIDENCE_ABSENT)]


def test_nothing_leaves_what_is_committed_or_undecidable() -> None:
    for event in TransactionEvent:
        assert follows(TransactionState.COMMITTED, event) in (None, TransactionState.COMMITTED)
        assert follows(TransactionState.UNDECIDABLE, event) is None


def test_a_decision_needs_commits_and_commits_need_prepared() -> None:
    for event in (EpochEvent.COMMITS_WRITTEN, EpochEvent.DECISION_WRITTEN):
        with pytest.raises(IllegalTransition, match="cannot happen"):
            EPOCH.next(EpochState.STARTED, event)
    assert EPOCH.next(EpochState.PREPARED, EpochEvent.COMMITS_WRITTEN) is EpochState.LOGGED


def test_what_is_decided_survives_the_end_of_its_run() -> None:
    assert EPOCH.next(EpochState.PREPARED, EpochEvent.RUN_ENDED) is EpochState.STARTED
    for state in (EpochState.LOGGED, EpochState.DECIDED, EpochState.DONE):
        follows_end = EPOCH.next(state, EpochEvent.RUN_ENDED) if state is not EpochState.DONE else state
        assert follows_end is state


def test_a_table_with_a_hole_is_refused() -> None:
    with pytest.raises(IllegalTransition, match="not total"):
        Table(EpochState, EpochEvent, {EpochState.NEW: (None,)})


@pytest.mark.parametrize(
    ("epoch", "state"),
    [
        (3, EpochState.DONE),
        (4, EpochState.DECIDED),
        (5, EpochState.LOGGED),
        (6, EpochState.PREPARED),
        (7, EpochState.STARTED),
        (8, EpochState.NEW),
    ],
)
def test_the_furthest_record_of_an_epoch_counts(epoch: int, state: EpochState) -> None:
    assert epoch_state(epoch, finished=3, logged=5, decided={2, 4}, prepared={3, 4, 5, 6}, started={7}) is state


def test_recovery_finishes_what_is_logged_or_decided() -> None:
    finishing = {state for state in EpochState if AT_RECOVERY[state] in FINISHING}
    assert finishing == {EpochState.LOGGED, EpochState.DECIDED}
    assert AT_RECOVERY[EpochState.PREPARED] is AtRecovery.RUN_AGAIN


def test_the_document_shows_every_state() -> None:
    text = markdown_table()
    for state in (*EpochState, *TransactionState):
        assert f"| **{state.value}** |" in text


def follows(state: TransactionState, event: TransactionEvent) -> TransactionState | None:
    try:
        return TRANSACTION.next(state, event)
    except IllegalTransition:
        return None
