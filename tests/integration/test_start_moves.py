"""What a supervised job says while it starts: its supervisor tells by it that it gets on."""

from __future__ import annotations

import os

import pytest

from tests.integration.place import Place, error_of, wait_until
from tests.integration.shelf import ShelfSink
from tidegate import Job
from tidegate.jobs.line import Declared, FromDriver, GoOn, Moved, Running, line_to_driver, line_to_supervisor
from tidegate.spark import supervised as supervision
from tidegate.spark.supervised import Supervised


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
        "Declared",
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


def said_by_a_start(place: Place, monkeypatch: pytest.MonkeyPatch) -> list[FromDriver]:
    """Start the job as under a supervisor that lets it go on; all that it has said."""
    line, theirs = line_to_driver()
    monkeypatch.setenv("TIDEGATE_SUPERVISED", str(theirs.detach()))
    supervised = Supervised(line_to_supervisor(os.environ))
    monkeypatch.setattr(supervision, "_current", supervised)
    line.say(GoOn())
    supervised.listen()
    job_of(place).start(until="caught-up").wait()
    said = line.heard()
    assert any(isinstance(message, Declared) for message in said)
    assert any(isinstance(message, Running) for message in said)
    return said
