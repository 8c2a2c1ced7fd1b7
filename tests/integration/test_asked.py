"""A job that is asked by its own program, or by others for what it cannot do."""

from __future__ import annotations

import socket
import time

from tests.integration.place import Place, wait_until
from tests.integration.shelf import ShelfSink
from tidegate import FileSink, SocketSource
from tidegate.jobs.asking import ask, new_id
from tidegate.jobs.beat import JobState, read_beat
from tidegate.jobs.control import Answer, Kind, Outcome


def asked(place: Place, kind: Kind) -> Answer:
    return ask(place.checkpoints / "job", kind, new_id(), 60, lambda _: None)


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
