"""How a job ends: what the tables must say whatever else they say."""

from __future__ import annotations

from itertools import product

import pytest

from tidegate.core.errors import Code, TidegateError
from tidegate.core.matrix import Matrix, NotTotal
from tidegate.operate.beat import JobState, Wrong
from tidegate.operate.control import Outcome
from tidegate.operate.endings import AskedOf, EndMode
from tidegate.operate.job_end import (
    AFTERWARDS,
    ANSWER,
    STATE,
    LastSeen,
    Left,
    Wanted,
    Wish,
    gives_up_its_checkpoints,
    is_left_to_the_next_start,
    last_seen,
    leaves_a_drain,
    wanted,
    wrong_of,
    wrong_of_the_last_savepoint,
)
from tidegate.supervise.outcomes import Fault, Stopped, fault_of, outcome_of
from tidegate.supervise.outcomes import JobOutcome as Outcomes

WAITS = TidegateError(Code.SINK_UNAVAILABLE, expected="a", found="b", where="c", next_step="d")


def test_a_table_with_a_hole_is_refused():
    with pytest.raises(NotTotal, match="STOP"):
        Matrix(Wanted, Wrong, {each: () if each is Wanted.STOP else tuple(Wrong) for each in Wanted})


@pytest.mark.parametrize("each", list(Wanted))
def test_an_error_fails_a_job_whatever_was_wanted(each: Wanted):
    assert STATE.cell(each, Wrong.OTHER) is JobState.FAILED


@pytest.mark.parametrize(("each", "wrong"), list(product(Wanted, Wrong)))
def test_every_job_has_an_end(each: Wanted, wrong: Wrong):
    assert STATE.cell(each, wrong) not in (JobState.RUNNING, JobState.RESTARTING)


def test_a_sink_that_is_not_ready_fails_no_job_that_this_start_was_asked_to_end():
    for asked_of in AskedOf:
        state = STATE.cell(wanted(EndMode.DRAIN, asked_of), Wrong.SINK)
        assert state is (JobState.STOPPED if asked_of is AskedOf.THIS_START else JobState.FAILED)


def test_what_is_all_that_was_wrong_is_told_by_its_code_alone():
    assert wrong_of(None) is wrong_of_the_last_savepoint(None) is Wrong.NOTHING
    assert wrong_of(WAITS) is Wrong.SINK
    assert wrong_of_the_last_savepoint(WAITS) is Wrong.SAVEPOINT
    assert wrong_of_the_last_savepoint(OSError()) is Wrong.SAVEPOINT
    assert wrong_of_the_last_savepoint(KeyboardInterrupt()) is Wrong.INTERRUPTED
    assert wrong_of(OSError(Code.SINK_UNAVAILABLE.label)) is Wrong.OTHER


@pytest.mark.parametrize("wrong", [Wrong.INTERRUPTED, Wrong.OTHER])
def test_no_end_of_a_failed_job_is_a_success(wrong: Wrong):
    for wish in set(Wish) - {Wish.CHECKPOINT_REACHED}:
        assert ANSWER.cell(wish, wrong) is Outcome.FAILED


def test_whoever_finds_the_end_never_says_more_than_the_driver_would():
    """A driver knows whether an epoch was done; afterwards a request is done only where the end itself tells."""
    for wish, state, wrong in product(Wish, (JobState.FINISHED, JobState.STOPPED, JobState.CANCELED), Wrong):
        done = AFTERWARDS.cell(wish, last_seen(state, wrong)) is Outcome.DONE
        assert not done or wrong is Wrong.NOTHING or wish in (Wish.DRAINED, Wish.CHECKPOINT_REACHED)


def test_a_driver_that_died_has_ended_nothing():
    for wish in (Wish.STOP, Wish.CANCEL, Wish.NOT_DRAINED, Wish.SAVED, Wish.NOT_SAVED):
        assert AFTERWARDS.cell(wish, LastSeen.DIED) is Outcome.FAILED


@pytest.mark.parametrize("ending", list(EndMode))
def test_checkpoints_go_with_a_clean_cancel_alone(ending: EndMode):
    for error, left in product((None, WAITS), Left):
        gone = gives_up_its_checkpoints(ending, error, lambda left=left: left)
        assert gone is (ending is EndMode.CANCEL and error is None and left is Left.NOTHING)


def test_a_cancel_leaves_a_sink_to_the_next_start_and_nothing_else():
    assert is_left_to_the_next_start(WAITS, EndMode.CANCEL)
    assert not is_left_to_the_next_start(WAITS, EndMode.STOP)
    assert not is_left_to_the_next_start(OSError(), EndMode.CANCEL)


def test_a_drain_that_waits_as_long_as_somebody_has_allowed_is_an_end():
    assert not leaves_a_drain(EndMode.DRAIN, AskedOf.THIS_START, WAITS, stands=True)
    assert leaves_a_drain(EndMode.DRAIN, AskedOf.ANOTHER, WAITS, stands=True)
    assert leaves_a_drain(EndMode.DRAIN, AskedOf.THIS_START, OSError(), stands=True)
    assert not leaves_a_drain(EndMode.DRAIN, AskedOf.THIS_START, OSError(), stands=False)


def test_what_needs_a_decision_is_told_before_what_only_waits():
    both = [Code.SINK_UNAVAILABLE, Code.DRIVER_ALIVE]
    assert fault_of(both) is Fault.TAKEN_OR_REFUSED
    assert fault_of([*both, Code.JOB_COUNT]) is Fault.UNUSABLE
    assert [outcome_of(Fault.SINK, Stopped.of(each)) for each in (True, False)] == [Outcomes.PENDING, Outcomes.FAILED]
