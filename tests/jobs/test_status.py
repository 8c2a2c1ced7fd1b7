"""How a job is, told by what its driver last said and by who holds its locks."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.jobs.folders import a_supervisor, another_driver, make_job, say
from tests.support.rights import modes_count
from tidegate.core.errors import TidegateError
from tidegate.operate.beat import BEAT, JobState, read_beat
from tidegate.operate.status import State, find_job, find_jobs, view_job
from tidegate.storages.leases import driver_lives
from tidegate.storages.local.locks import acquire
from tidegate.storages.schemes import Folder

LONG_AGO = 1_700_000_000.0


@pytest.mark.parametrize(
    ("said", "state"),
    [
        (None, State.UNKNOWN),
        (JobState.RUNNING, State.DIED),
        (JobState.FINISHED, State.FINISHED),
        (JobState.STOPPED, State.STOPPED),
        (JobState.CANCELED, State.CANCELED),
        (JobState.FAILED, State.FAILED),
    ],
)
def test_a_job_without_a_driver_is_what_its_driver_last_said_or_its_driver_has_died(
    tmp_path: Path, said: JobState | None, state: State
):
    job = make_job(tmp_path)
    if said is not None:
        say(job, said)
    assert view_job(Folder.of(job)).state is state


@pytest.mark.parametrize("said", [JobState.RUNNING, JobState.FAILED, None])
def test_a_job_without_a_driver_whose_supervisor_lives_is_restarting(tmp_path: Path, said: JobState | None):
    job = make_job(tmp_path)
    if said is not None:
        say(job, said)
    with a_supervisor(job):
        assert view_job(Folder.of(job)).state is State.RESTARTING
    assert view_job(Folder.of(job)).state is not State.RESTARTING


def test_a_job_that_was_stopped_is_not_started_again_by_its_supervisor(tmp_path: Path):
    job = make_job(tmp_path)
    say(job, JobState.STOPPED)
    with a_supervisor(job):
        assert view_job(Folder.of(job)).state is State.STOPPED


def test_a_job_whose_driver_lives_runs_once_that_very_driver_says_so(tmp_path: Path):
    job = make_job(tmp_path)
    say(job, JobState.RUNNING)
    with another_driver(job) as process:
        assert view_job(Folder.of(job)).state is State.STARTING  # the beat is of an earlier driver
        say(job, JobState.RUNNING, process=process, at=LONG_AGO)
        assert view_job(Folder.of(job)).state is State.STARTING  # so is this: processes' numbers come again
        say(job, JobState.RUNNING, process=process, at=time.time() + 1)
        assert view_job(Folder.of(job)).state is State.RUNNING
    assert view_job(Folder.of(job)).state is State.DIED


def test_a_torn_beat_is_none(tmp_path: Path):
    job = make_job(tmp_path)
    say(job, JobState.RUNNING)
    (job / BEAT).write_bytes((job / BEAT).read_bytes()[:40])
    assert read_beat(job) is None
    assert view_job(Folder.of(job)).state is State.UNKNOWN


def test_a_job_whose_record_is_torn_is_shown_as_such(tmp_path: Path):
    job = make_job(tmp_path)
    (job / "job.json").write_bytes(b"tidegate job 1")
    view = find_jobs(Folder.of(tmp_path))[0]
    assert (view.state, "TG-RECORD-CORRUPT" in view.problem) == (State.UNREADABLE, True)


SPOILT_BEATS = [b"\xff\xfe", b'{"job":"\xff"}', b"[]", b"", b'{"deep":' + b"[" * 200_000, b'{"job":"job"}']


@pytest.mark.parametrize("data", SPOILT_BEATS, ids=["bytes", "no UTF-8", "a list", "empty", "deep", "a field"])
def test_a_beat_that_is_none_is_said_and_tells_nothing(tmp_path: Path, data: bytes):
    job = make_job(tmp_path)
    (job / BEAT).write_bytes(data)
    assert read_beat(job) is None
    view = view_job(Folder.of(job))
    assert (view.state, view.problem.startswith("beat.json cannot be read: ")) == (State.UNKNOWN, True)


@pytest.mark.parametrize("name", [BEAT, "job.json", "locks/holder.json"])
def test_a_folder_in_the_place_of_a_file_is_said_of_its_job_alone(tmp_path: Path, name: str):
    job = make_job(tmp_path, "spoilt")
    make_job(tmp_path, "words")
    with another_driver(job):  # whose name is looked up
        say(job, JobState.RUNNING)
        (job / name).unlink()
        (job / name).mkdir()
        spoilt, words = find_jobs(Folder.of(tmp_path))
    assert (spoilt.state, "Is a directory" in spoilt.problem) == (State.UNREADABLE, True)
    assert (words.state, words.problem) == (State.UNKNOWN, "")


def test_a_job_whose_folder_may_not_be_read_hides_no_other(tmp_path: Path):
    shut = make_job(tmp_path, "shut")
    make_job(tmp_path, "words")
    shut.chmod(0)
    try:
        with modes_count():
            found = find_jobs(Folder.of(tmp_path))
    finally:
        shut.chmod(0o755)
    assert [(view.name, view.state) for view in found] == [("shut", State.UNREADABLE), ("words", State.UNKNOWN)]
    assert "Permission denied" in found[0].problem


def test_a_holder_whose_time_is_none_holds_nobody_up(tmp_path: Path):
    job = make_job(tmp_path)
    with another_driver(job) as process:
        say(job, JobState.RUNNING, process=process, at=time.time() + 1)
        holder = job / "locks" / "holder.json"
        holder.write_bytes(holder.read_bytes().replace(b'"since":"', b'"since":"no time '))
        assert view_job(Folder.of(job)).state is State.STARTING


def test_a_job_that_was_never_begun_is_shown_while_somebody_tries_to(tmp_path: Path):
    """As where the broker is down: what stands against a start is looked at before its record is written."""
    job = make_job(tmp_path)
    (job / "job.json").unlink()
    assert find_jobs(Folder.of(tmp_path)) == []
    with a_supervisor(job):
        (view,) = find_jobs(Folder.of(tmp_path))
        assert (view.state, view.problem, view.job_id) == (State.RESTARTING, "", "")
        assert find_job(Folder.of(tmp_path), "job") == view
    with another_driver(job):
        assert [view.state for view in find_jobs(Folder.of(tmp_path))] == [State.STARTING]
    assert find_jobs(Folder.of(tmp_path)) == []


def test_what_is_no_job_is_passed_over(tmp_path: Path):
    make_job(tmp_path, "words")
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "not a name").mkdir()
    (tmp_path / "not a name" / "job.json").write_text("")
    assert [view.name for view in find_jobs(Folder.of(tmp_path))] == ["words"]
    assert find_jobs(Folder.of(tmp_path / "nowhere")) == []


def test_an_unknown_job_is_told_the_near_names_and_the_folder(tmp_path: Path):
    for name in ("wordcount", "sensors"):
        make_job(tmp_path, name)
    with pytest.raises(TidegateError) as caught:
        find_job(Folder.of(tmp_path), "wordcuont")
    assert (caught.value.code, caught.value.where) == ("TG-JOB-UNKNOWN", str(tmp_path))
    assert caught.value.next_step == "did you mean wordcount?"


def test_a_job_is_found_by_its_id_where_no_job_has_that_name_and_one_job_has_the_id(tmp_path: Path):
    make_job(tmp_path, "words")
    assert find_job(Folder.of(tmp_path), "0a0b0c0d").name == "words"
    make_job(tmp_path, "moved")
    with pytest.raises(TidegateError) as caught:
        find_job(Folder.of(tmp_path), "0a0b0c0d")
    assert (caught.value.code, caught.value.found.partition(":")[0]) == ("TG-JOB-UNKNOWN", "moved, words")
    make_job(tmp_path, "0a0b0c0d")
    assert find_job(Folder.of(tmp_path), "0a0b0c0d").name == "0a0b0c0d"


@pytest.mark.parametrize("name", ["../words", "a/../words", "nul\0", "", "x" * 10_000, "/etc"])
def test_what_is_no_name_of_a_job_is_refused(tmp_path: Path, name: str):
    make_job(tmp_path, "words")
    with pytest.raises(TidegateError, match="TG-UID-INVALID") as caught:
        find_job(Folder.of(tmp_path / "words"), name)
    assert len(str(caught.value)) < 1_000


def test_looking_takes_no_lock_and_loosens_none(tmp_path: Path):
    """A driver that starts at the very moment of a look must get its lock; one that looks at itself keeps its own."""
    program = "import sys; from tidegate.storages.local.locks import acquire; acquire(sys.argv[1], 'job')"
    job = make_job(tmp_path)
    with acquire(job, "job"):
        assert driver_lives(job)
        refused = subprocess.run([sys.executable, "-c", program, str(job)], capture_output=True, text=True)
        assert "TG-DRIVER-ALIVE" in refused.stderr
    assert not driver_lives(job)


def test_a_look_never_refuses_a_start(tmp_path: Path):
    job = make_job(tmp_path)
    looking = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys\nfrom tidegate.storages.leases import driver_lives\n"
            "print('looking', flush=True)\nwhile True: driver_lives(sys.argv[1])",
            str(job),
        ],
        stdout=subprocess.PIPE,
    )
    with looking:
        assert looking.stdout is not None
        looking.stdout.readline()
        try:
            for _ in range(300):
                acquire(job, "job").release()
        finally:
            looking.kill()
