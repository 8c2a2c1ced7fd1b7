"""The times of an epoch's phases: taken at the places that its run passes, whichever thread passes them first."""

from __future__ import annotations

import pytest

from tidegate.operate.done_checkpoint import TimedPhase
from tidegate.spark import epoch_times
from tidegate.spark.epoch_times import EpochClock, EpochTimes

PLACES = ("compute.after", "sync.after", "prepared.after", "commits.seen.after", "decision.after", "done.before")


class Now:
    """A clock that stands until it is told."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Now:
    clock = Now()
    monkeypatch.setattr(epoch_times, "time", clock)
    return clock


def epoch_that_passes(clock: EpochClock, now: Now, places: tuple[str, ...] = PLACES) -> EpochTimes | None:
    """Waits 1 s, computes for 10 s (3 of them pre-committing), and takes 2, 3, 4, ... s to each further place."""
    clock.begins(7)
    now.seconds += 1
    clock.let_in(7)
    for seconds, place in zip((10, 2, 3, 4, 5, 6, 7), places, strict=False):
        now.seconds += seconds
        clock.passes(place, 7)
    clock.pre_committed(7, 3.0)
    now.seconds += 7
    return clock.done(7)


def test_each_phase_has_its_time_and_the_rest_was_spent_waiting(now: Now) -> None:
    times = epoch_that_passes(EpochClock(), now)
    assert times is not None
    assert list(times.phases) == list(TimedPhase)
    assert list(times.phases.values()) == [7_000, 3_000, 2_000, 3_000, 4_000, 5_000, 6_000, 7_000]
    assert (times.total_ms, times.total_ms - sum(times.phases.values())) == (38_000, 1_000)
    assert times.commit_delay_ms == 18_000


def test_a_decision_that_the_next_epoch_has_made_before_takes_no_time_and_the_phases_still_add_up(now: Now) -> None:
    early = ("compute.after", "sync.after", "prepared.after", "decision.after", "commits.seen.after", "done.before")
    times = epoch_that_passes(EpochClock(), now, early)
    assert times is not None
    assert (times.phases[TimedPhase.COMMITS], times.phases[TimedPhase.DECIDED]) == (9_000, 0)
    assert sum(times.phases.values()) == 37_000


def test_the_first_passage_counts_when_both_threads_look_for_the_decision(now: Now) -> None:
    times = epoch_that_passes(EpochClock(), now, (*PLACES[:5], "decision.after", "done.before"))
    assert times is not None
    assert (times.phases[TimedPhase.DECIDED], times.phases[TimedPhase.COMMIT]) == (5_000, 13_000)


def test_an_epoch_that_another_run_has_finished_has_no_phases(now: Now) -> None:
    times = epoch_that_passes(EpochClock(), now, PLACES[:5])
    assert times is not None
    assert (times.phases, times.total_ms) == ({}, 32_000)


def test_an_epoch_of_another_process_has_no_times(now: Now) -> None:
    clock = EpochClock()
    for place in PLACES:
        clock.passes(place, 7)
    assert clock.done(7) is None


def test_an_epoch_that_runs_again_begins_anew(now: Now) -> None:
    clock = EpochClock()
    clock.begins(7)
    clock.passes("compute.after", 7)
    now.seconds += 100
    times = epoch_that_passes(clock, now)
    assert times is not None
    assert times.total_ms == 38_000
    assert clock.seconds_so_far(7) is None
