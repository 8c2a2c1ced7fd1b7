"""The table of a run's states: what is given up stays given up, and what was to end takes no other epoch."""

from __future__ import annotations

from itertools import product

import pytest

from tidegate.core.errors import Code, TidegateError
from tidegate.core.states import IllegalTransition
from tidegate.spark.epoch_watch import EpochRefused, EpochWatch
from tidegate.spark.job_runs import time_of_restart
from tidegate.spark.run_errors import RunErrors
from tidegate.spark.run_state import OUT_OF_REACH, RUN, START_WAS_LOST, STREAM_IS_OVER, TO_END, RunEvent, RunState
from tidegate.spark.shared_state import SharedState


def after(*events: RunEvent) -> RunState:
    state = RunState.OPEN
    for event in events:
        state = RUN.next(state, event)
    return state


@pytest.mark.parametrize("kept", [OUT_OF_REACH, START_WAS_LOST, STREAM_IS_OVER, TO_END])
def test_what_has_become_of_a_run_is_never_taken_back(kept: frozenset[RunState]):
    for state, event in product(kept, RunEvent):
        try:
            assert RUN.next(state, event) in kept
        except IllegalTransition:
            continue


def test_a_run_can_be_asked_to_end_and_its_stream_be_over_in_every_state():
    for state in RunState:
        assert RUN.next(state, RunEvent.END_ASKED) in TO_END
        assert RUN.next(state, RunEvent.STREAM_OVER) in STREAM_IS_OVER


def test_a_query_that_ended_by_itself_is_told_from_one_that_was_to_end():
    assert after(RunEvent.STREAM_OVER) not in TO_END
    assert after(RunEvent.END_ASKED, RunEvent.STREAM_OVER) is after(RunEvent.STREAM_OVER, RunEvent.END_ASKED)


def test_nothing_starts_a_run_again():
    for state in STREAM_IS_OVER | OUT_OF_REACH | START_WAS_LOST:
        for event in (RunEvent.START_REFUSED, RunEvent.START_LOST):
            with pytest.raises(IllegalTransition):
                RUN.next(state, event)


def test_an_error_keeps_the_next_epoch_out_as_an_end_does():
    for end in (lambda shared: shared.leave(OSError("no")), lambda shared: shared.happens(RunEvent.END_ASKED)):
        shared = SharedState(EpochWatch(1.0, 0.0))
        shared.refuse_if_ending()
        end(shared)
        with pytest.raises(EpochRefused):
            shared.refuse_if_ending()


def test_a_sink_that_is_left_to_the_next_start_is_not_told_but_is_an_error_all_the_same():
    waits = TidegateError(Code.SINK_UNAVAILABLE, expected="a", found="b", where="c", next_step="d")
    errors, other = RunErrors(), OSError("no")
    errors.add(waits)
    assert errors.first_to_tell() is waits
    errors.leave_unready_sinks()
    assert (errors.first_to_tell(), errors.left_behind, bool(errors)) == (None, waits, True)
    errors.add(other)
    assert (errors.first_to_tell(), errors.is_one) == (other, False)


def test_the_first_error_of_a_run_says_when_it_failed():
    shared = SharedState(EpochWatch(1.0, 0.0))
    shared.leave(None)
    assert shared.failed_at is None
    shared.fails()
    first = shared.failed_at
    shared.leave(OSError("no"))
    shared.leave(OSError("no again"))
    assert first is not None
    assert shared.failed_at is first


@pytest.mark.parametrize(
    ("failed_at", "pause", "restart_at"),
    [
        (10.0, 1.0, 12.0),  # the end of the run took longer than the pause
        (10.0, 5.0, 15.0),
        (None, 5.0, 17.0),
        (None, 0.0, 12.0),
    ],
)
def test_the_pause_of_a_query_counts_from_its_failure_and_its_next_run_waits_for_the_end_of_the_last(
    failed_at: float | None, pause: float, restart_at: float
):
    assert time_of_restart(failed_at, 12.0, pause) == restart_at
