"""When a driver that is alive counts as stalled."""

from __future__ import annotations

from tidegate.operate.beat import Beat, JobState
from tidegate.supervise.progress import ProgressWatch


def beat(progress_at: float, at: float = 0.0, epoch_seconds: float = 0.0) -> Beat:
    return Beat(
        job="words",
        job_id="0a1b2c3d",
        state=JobState.RUNNING,
        host="here",
        process=1,
        started_at=0.0,
        at=at,
        progress_at=progress_at,
        epoch_seconds=epoch_seconds,
    )


def stalled_at(watch: ProgressWatch, beats: list[Beat | None], first: int = 1) -> int | None:
    """The second at which it counts as stalled, with a look a second."""
    return next((second for second, seen in enumerate(beats, start=first) if watch.look(seen, float(second))), None)


def running(timeout_seconds: float) -> ProgressWatch:
    watch = ProgressWatch(timeout_seconds, 0.0)
    watch.heard()
    watch.runs()
    return watch


def test_a_driver_whose_progress_stands_still_has_stalled():
    assert stalled_at(running(5.0), [beat(1.0)] * 10) == 6  # the first look sees it move


def test_a_driver_that_gets_on_has_not():
    assert stalled_at(running(2.0), [beat(float(second)) for second in range(100)]) is None


def test_the_drivers_clock_does_not_count():
    """It may be hours ahead, and may be set back: a change is progress."""
    assert stalled_at(running(2.0), [beat(1e9 - second) for second in range(100)]) is None


def test_an_epoch_that_is_computed_has_its_own_time():
    """A driver cuts it off by itself. One that does not get on behind that has stalled."""
    beats = [beat(1.0, at=float(second), epoch_seconds=40.0) for second in range(200)]
    assert stalled_at(running(5.0), [*beats]) == 101  # 40, and a minute


def test_a_driver_that_is_stopped_while_an_epoch_is_computed_has_stalled():
    """It gives no sign of life any more, so nothing cuts the epoch off."""
    assert stalled_at(running(5.0), [beat(1.0, at=1.0, epoch_seconds=40.0)] * 20) == 6


def test_a_driver_that_never_gets_as_far_as_its_job_has_stalled():
    assert stalled_at(ProgressWatch(90.0, 0.0), [None] * 100) == 90
    heard = ProgressWatch(90.0, 0.0)
    assert stalled_at(heard, [None] * 50) is None
    heard.heard()
    assert stalled_at(heard, [None] * 100, first=51) == 140


def test_a_short_timeout_leaves_a_start_its_time():
    assert stalled_at(ProgressWatch(5.0, 0.0), [None] * 100) == 60


def test_a_job_without_a_beat_is_not_judged():
    assert stalled_at(running(3.0), [None] * 100) is None


def test_a_night_that_both_have_slept_through_is_no_stall():
    watch = running(60.0)
    assert not watch.look(beat(1.0), 1.0)
    assert not watch.look(beat(1.0), 30_000.0)
    assert not watch.look(beat(2.0), 30_001.0)


def test_no_timeout_means_never():
    assert stalled_at(running(0.0), [beat(1.0)] * 1_000) is None


def test_a_query_that_waits_for_its_next_run_does_not_stand_still():
    """Its job may have nothing else to do, or may get on with other queries."""
    watch = running(3.0)
    watch.rests(60.0)
    assert stalled_at(watch, [beat(1.0)] * 50) is None
    assert stalled_at(watch, [beat(2.0)] * 20, first=51) == 63
