"""A job that is asked by its own program, or by others for what it cannot do."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import pytest

from tests.integration.place import Place, error_of, run, wait_until, wait_until_finished
from tests.integration.shelf import ShelfSink
from tests.support.today import turn
from tidegate import FileSink, JobHandle, SocketSource, operate
from tidegate.checkpoints.retention import delete_checkpoints
from tidegate.core.errors import Code, TidegateError
from tidegate.operate.beat import Beat, JobState, read_beat
from tidegate.operate.control import Answer, Kind, Outcome


def asked(place: Place, kind: Kind) -> Answer:
    answer = operate.open(place.checkpoints, "job").ask(kind).wait(60).answer
    assert answer is not None
    return answer


@turn(0, of=2)
def test_a_checkpoint_of_the_program_waits_for_the_epoch_under_way(place: Place):
    place.write("sea")
    job = place.job()
    sink = ShelfSink("shelf", place.folder)
    sink.moods.busy = -1
    job.query("query", place.words(job), sinks=[sink])
    handle = job.start()
    wait_until(lambda: sink.moods.commits, "a commit that was put off")
    assert handle.checkpoint(timeout_seconds=0.2) is None
    sink.moods.busy = 0
    assert handle.checkpoint() == {"query": 0}
    assert sink.rows() == ["sea"]
    handle.stop()


def test_a_cancel_leaves_what_is_decided_and_not_taken_to_the_next_start(place: Place):
    place.write("sea")
    job = place.job()
    sink = ShelfSink("shelf", place.folder)
    sink.moods.busy = -1
    job.query("query", place.words(job), sinks=[sink])
    handle = job.start()
    wait_until(lambda: place.log("ledger/decided") == [0], "a decision")
    begun = time.monotonic()
    handle.cancel()  # no error: the next start commits it
    assert time.monotonic() - begun < 10
    beat = read_beat(place.checkpoints / "job")
    assert beat is not None
    assert (beat.state, sink.rows()) == (JobState.CANCELED, [])
    sink.moods.busy = 0
    handle = job.start()
    assert handle.checkpoint() == {"query": 0}
    handle.stop()
    assert sink.rows() == ["sea"]


@pytest.mark.parametrize(
    ("kind", "outcome", "state"),
    [(Kind.STOP, Outcome.PENDING, JobState.STOPPED), (Kind.CANCEL, Outcome.DONE, JobState.CANCELED)],
)
def test_a_job_that_is_asked_to_end_while_it_recovers_ends_so_and_says_what_waits(
    place: Place, kind: Kind, outcome: Outcome, state: JobState
):
    place.write("sea")
    job = place.job(stop_timeout="500ms")
    sink = ShelfSink("shelf", place.folder)
    sink.moods.busy = -1
    job.query("query", place.words(job), sinks=[sink])
    handle = job.start()
    wait_until(lambda: place.log("ledger/decided") == [0], "a decision")
    handle.cancel()

    started: list[JobHandle] = []
    start = threading.Thread(target=lambda: started.append(job.start()))
    start.start()
    wait_until(lambda: _beat(place).state is JobState.RUNNING, "the recovery, which waits for the sink")
    answer = asked(place, kind)
    start.join(60)
    assert (answer.outcome, _beat(place).state) == (outcome, state)
    assert "sink shelf to take epoch 0" in answer.detail
    [handle] = started
    if kind is Kind.STOP:
        assert error_of(handle.wait).code == "TG-SINK-UNAVAILABLE"
    else:
        assert handle.wait(0)
    assert not handle.status().running
    sink.moods.busy = 0
    run(job)
    assert sink.rows() == ["sea"]


def _beat(place: Place) -> Beat:
    beat = read_beat(place.checkpoints / "job")
    assert beat is not None
    return beat


@pytest.mark.parametrize("deletes", [True, False], ids=["deleted", "not-deleted"])
def test_whoever_reads_the_answer_to_a_cancel_finds_the_checkpoints_gone(
    place: Place, deletes: bool, monkeypatch: pytest.MonkeyPatch
):
    said: list[JobState] = []

    def delete_slowly(*given: Any) -> None:
        time.sleep(1.2)  # longer than from one beat to the next
        said.append(_beat(place).state)
        if not deletes:
            raise TidegateError(
                Code.SINK_UNUSABLE, expected="it forgets", found="it does not", where="a sink", next_step="go"
            )
        delete_checkpoints(*given)

    monkeypatch.setattr("tidegate.spark.starting.delete_checkpoints", delete_slowly)
    place.write("sea")
    job = place.job(checkpointing_retention="delete")
    job.query("query", place.words(job), sinks=[ShelfSink("shelf", place.folder)])
    handle = job.start()
    wait_until_finished(handle, 0)
    answer = asked(place, Kind.CANCEL)
    assert said == [JobState.RUNNING], "the end was told before"
    left = (place.checkpoints / "job" / "queries").exists()
    if deletes:
        assert (answer.outcome, _beat(place).state, left) == (Outcome.DONE, JobState.CANCELED, False)
        assert handle.wait(60)
    else:
        assert (answer.outcome, _beat(place).state, left) == (Outcome.FAILED, JobState.FAILED, True)
        assert "it does not" in answer.detail
        assert error_of(handle.wait).code == "TG-SINK-UNUSABLE"


def test_a_job_that_reads_a_plain_socket_is_not_stopped_from_outside_and_canceled_it_is(place: Place):
    with socket.create_server(("127.0.0.1", 0)) as server:
        job = place.job(checkpointing_mode="at-most-once")
        lines = job.source("lines", SocketSource("127.0.0.1", server.getsockname()[1]))
        job.query("query", lines, sinks=[FileSink("files", place.folder / "out", format="text")])
        handle = job.start()
        refused = asked(place, Kind.STOP)
        assert (refused.outcome, "`tidegate cancel job`" in refused.detail) == (Outcome.REFUSED, True)
        assert handle.status().running
        assert asked(place, Kind.CANCEL).outcome is Outcome.DONE
        assert handle.wait(60)
