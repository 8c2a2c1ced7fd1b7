"""What a supervised job says to its supervisor: while it starts, that it gets on; and how it has ended."""

from __future__ import annotations

import os

import pytest

from tests.integration.place import Place, error_of, wait_until
from tests.integration.shelf import ShelfSink
from tidegate import Job
from tidegate.spark import supervised as supervision
from tidegate.spark.supervised import Supervised
from tidegate.supervise.line import (
    Finished,
    FromDriver,
    GoOn,
    Line,
    Moved,
    Running,
    StartAnnounced,
    Stop,
    line_to_driver,
    line_to_supervisor,
)


def test_a_supervised_start_tells_every_phase_and_every_epoch_of_its_recovery(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    place.write("a")
    handle = job_of(place, busy=True).start(until="caught-up")
    wait_until(lambda: place.log("ledger/decided", "copy", "starting") == [0], "a decided epoch")
    assert error_of(lambda: handle.stop(0)).code == "TG-SINK-UNAVAILABLE"

    said = said_by_a_start(place, monkeypatch)
    steps = [message.step if isinstance(message, Moved) else type(message).__name__ for message in said]
    before = steps[: steps.index("Running")]
    phases = [
        "source words, declared",
        "StartAnnounced",
        "the job's locks",
        "sink shelf, checked",
        "sink shelf, opened",
        "query copy, every sink of epoch 0 has committed, 1 rows",
        "query copy, about to start",
    ]
    assert [step for step in before if step in phases] == phases
    assert len(set(steps)) == len(steps), "no step is told twice"
    assert not any(isinstance(message, Moved) for message in said[steps.index("Running") :])


def job_of(place: Place, *, busy: bool = False) -> Job:
    job = place.job("starting")
    sink = ShelfSink("shelf", place.folder)
    sink.moods.busy = -1 if busy else 0
    job.query("copy", place.words(job), sinks=[sink])
    return job


@pytest.mark.parametrize("stopped", [True, False])
def test_the_last_word_says_whether_somebody_has_stopped_the_job(
    place: Place, monkeypatch: pytest.MonkeyPatch, stopped: bool
):
    place.write("a")
    supervised, line = under_supervision(monkeypatch)
    handle = job_of(place).start(until=None if stopped else "caught-up")
    if stopped:
        handle.stop()
    handle.wait()
    line.say(Stop())  # too late, and not heard before the last word is
    supervised.ended(None, 0)
    assert line.heard()[-1] == Finished(report=None, job_ended=True, asked=stopped)


def test_a_driver_that_is_started_again_does_not_begin_a_job_anew_that_was_forgotten_meanwhile(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    """From another machine: there `tidegate forget` does not see the supervisor."""
    place.write("a")
    under_supervision(monkeypatch, resumes="0f1e2d3c")
    error = error_of(lambda: job_of(place).start(until="caught-up"))
    assert (error.code, "tidegate forget" in error.found) == ("TG-JOB-MISMATCH", True)
    assert not (place.checkpoints / "starting/job.json").exists()


def said_by_a_start(place: Place, monkeypatch: pytest.MonkeyPatch) -> list[FromDriver]:
    """Start the job as under a supervisor that lets it go on; all that it has said."""
    _, line = under_supervision(monkeypatch)
    job_of(place).start(until="caught-up").wait()
    said = line.heard()
    assert any(isinstance(message, StartAnnounced) for message in said)
    assert any(isinstance(message, Running) for message in said)
    return said


def under_supervision(monkeypatch: pytest.MonkeyPatch, *, resumes: str = "") -> tuple[Supervised, Line[FromDriver]]:
    """This process as a supervised driver whose supervisor lets its job go on; and the supervisor's end of the line."""
    line, theirs = line_to_driver()
    monkeypatch.setenv("TIDEGATE_SUPERVISED", str(theirs.detach()))
    supervised = Supervised(line_to_supervisor(os.environ))
    monkeypatch.setattr(supervision, "_current", supervised)
    line.say(GoOn(resumes=resumes))
    supervised.listen()
    _OPEN.append(line)
    return supervised, line


_OPEN: list[Line[FromDriver]] = []
"""For as long as this process lives: a driver whose line ends has lost its supervisor, and ends its process."""
