"""One driver: a second start of a job is refused while the first lives, and told who that is."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from tests.integration.place import Place, error_of, run, wait_until, wait_until_finished
from tests.integration.shelf import ShelfSink
from tests.support.today import turn
from tidegate import FileSink, Job

PROGRAM = Path(__file__).with_name("second_driver.py")


def job_of(place: Place) -> Job:
    job = place.job()
    job.query("query", place.words(job), sinks=[FileSink("files", place.folder / "out", format="json")])
    return job


@turn(2, of=4)
def test_a_second_start_is_refused_in_this_process_and_in_another(place: Place):
    place.write("sea")
    first = job_of(place).start()
    second = subprocess.Popen(
        [sys.executable, str(PROGRAM), str(place.folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert second.stdin is not None
    assert second.stdout is not None
    with second:
        error = error_of(job_of(place).start)
        holder = f"process {os.getpid()} on {socket.gethostname()}"
        assert (error.code, "this same process" in error.found) == ("TG-DRIVER-ALIVE", True)
        assert error.found.startswith(holder)

        assert second.stdout.readline() == f"TG-DRIVER-ALIVE {holder}\n"
        first.stop()
        assert place.words_out() == {0: ["sea"]}
        place.write("sand")
        second.stdin.write("go on\n")
        second.stdin.flush()
        assert second.stdout.readline() == "finished 1\n"
        # It has ended its job, so this process may have it again, while the other one still lives.
        place.write("wind")
        run(job_of(place))
    assert second.returncode == 0
    assert place.words_out() == {0: ["sea"], 1: ["sand"], 2: ["wind"]}


def test_the_same_job_object_starts_again_after_its_end_and_not_before(place: Place):
    place.write("sea")
    job = job_of(place)
    handle = job.start()
    assert "this same process" in error_of(job.start).found
    wait_until_finished(handle, 0)
    handle.stop()
    place.write("sand")
    run(job)
    run(job)
    assert place.words_out() == {0: ["sea"], 1: ["sand"]}


def test_a_driver_that_sees_a_newer_run_stops(place: Place):
    """As when somebody took the lock away by force: two finishers would fence each other for ever."""
    place.write("sea")
    job = place.job()
    sink = ShelfSink("shelf", place.folder)
    sink.moods.busy = -1
    job.query("query", place.words(job), sinks=[sink])
    handle = job.start()
    wait_until(lambda: sink.moods.commits, "a commit that was put off")
    runs = place.query() / "ledger" / "runs"
    (runs / "2").write_bytes((runs / "1").read_bytes())
    error = error_of(lambda: handle.wait(60))
    assert error.code == "TG-RUN-SUPERSEDED"
    assert (sink.rows(), place.log("ledger/done")) == ([], [])
