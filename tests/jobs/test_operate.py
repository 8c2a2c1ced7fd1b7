"""A running job, operated from other processes: looked at, asked for checkpoints, stopped, canceled, killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.place import wait_until
from tests.jobs.folders import tidegate
from tests.support.driver import PYTHON_PATH
from tests.support.today import turn
from tidegate.operate.beat import JobState, read_beat
from tidegate.operate.control import Desk, Kind, Request
from tidegate.savepoints.folder import open_savepoint, savepoints_in, verify
from tidegate.storages.schemes import Folder

PROGRAM = Path(__file__).with_name("program.py")
ROOT = Path(__file__).parents[2]


@dataclass
class Operated:
    """The job `words` in a process of its own, and the command beside it."""

    folder: Path
    process: subprocess.Popen[str]

    @property
    def job(self) -> Path:
        return self.folder / "checkpoints" / "words"

    def start(self) -> None:
        """Tell the process to start the job once more, and wait until the job runs."""
        assert self.process.stdin is not None
        before = read_beat(self.job)
        self.process.stdin.write("start\n")
        self.process.stdin.flush()

        def runs() -> bool:
            assert self.process.poll() is None, "the driver has ended"
            beat = read_beat(self.job)
            if beat is None or (before is not None and beat.incarnation == before.incarnation):
                return False
            return beat.state is JobState.RUNNING

        wait_until(runs, "the job running")

    def said(self) -> str:
        """What the process says when the job has ended."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def write(self, *words: str) -> None:
        """One file, which is one epoch."""
        number = len(list((self.folder / "in").iterdir()))
        hidden = self.folder / "in" / f".{number:03d}"
        hidden.write_text("".join(json.dumps({"word": word}) + "\n" for word in words))
        hidden.rename(self.folder / "in" / f"{number:03d}.json")

    def done(self) -> int:
        """The newest done epoch, by the ledger."""
        folder = self.job / "queries" / "copy" / "g1" / "ledger" / "done"
        return max(
            (int(name) for name in (os.listdir(folder) if folder.exists() else []) if name.isdigit()), default=-1
        )

    def has_prepared(self, epoch: int) -> bool:
        prepared = self.job / "queries" / "copy" / "g1" / "ledger" / "prepared"
        return any(name.startswith(f"{epoch}.") for name in os.listdir(prepared))

    def rows(self) -> list[str]:
        shelf = self.folder / "shelf"
        return sorted(json.loads(line)["word"] for file in shelf.iterdir() for line in file.read_text().splitlines())

    def command(self, *arguments: str) -> tuple[int, Any]:
        """The exit code of a command and the JSON value it prints."""
        code, output = tidegate(*arguments, "--dir", str(self.folder / "checkpoints"), "--json")
        return code, json.loads(output)

    def text(self, *arguments: str) -> tuple[int, str]:
        return tidegate(*arguments, "--dir", str(self.folder / "checkpoints"))


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    folder = tmp_path_factory.mktemp("operated")
    (folder / "in").mkdir()
    with process_in(folder) as operated:
        yield operated


@contextmanager
def process_in(folder: Path) -> Iterator[Operated]:
    """A process for the job in a folder that may have run before."""
    environment = {**os.environ, "PYTHONPATH": PYTHON_PATH, "PYSPARK_PYTHON": sys.executable}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment,
            start_new_session=True,
        )
    operated = Operated(folder, process)
    try:
        yield operated
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGCONT)
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@turn(3, of=4)
def test_a_running_job_is_looked_at_asked_and_stopped_from_other_processes(job: Operated):
    job.write("sea", "sand")
    job.start()

    code, answer = job.command("checkpoint", "words", "--id", "first")
    assert (code, answer["outcome"], answer["epochs"]) == (0, "done", {"copy": 0})
    assert job.rows() == ["sand", "sea"]

    code, listed = job.command("list", "-r")
    assert code == 0
    assert [(each["job"], each["state"], each["process"]) for each in listed["jobs"]] == [
        ("words", "RUNNING", job.process.pid)
    ]
    code, info = job.command("info", "words")
    (query,) = info["queries"]
    assert (query["uid"], query["sources"], query["sinks"], query["finished"]) == ("copy", ["lines"], ["shelf"], 0)
    assert info["settings"]["checkpointing.interval"]["origin"] == "program: checkpointing_interval"
    assert "RUNNING" in job.text("list")[1]
    assert "checkpointing_interval" in job.text("info", "words")[1]

    # The epoch that is under way belongs to the checkpoint; the same id is not another request.
    (job.folder / "busy").touch()
    job.write("wind")
    wait_until(lambda: job.has_prepared(1), "an epoch that waits for its sink")
    assert job.command("checkpoint", "words", "--id", "first")[1] == answer
    code, none = job.command("checkpoint", "words", "--id", "second", "--timeout", "300ms")
    assert (code, none["outcome"]) == (7, "no answer")
    wait_until(lambda: _open_transactions(job) > 0, "a beat with what is prepared and not committed")
    (job.folder / "busy").unlink()
    code, answer = job.command("checkpoint", "words", "--id", "second")
    assert (code, answer["epochs"]) == (0, {"copy": 1})
    assert job.rows() == ["sand", "sea", "wind"]
    assert job.text("stop", "words", "--id", "second")[0] == 4

    wait_until(lambda: len(job.command("history", "words")[1]["checkpoints"]) == 2, "the history written")
    newest, oldest = job.command("history", "words")[1]["checkpoints"]
    assert [(each["epoch"], each["rows"], each["query"]) for each in (newest, oldest)] == [
        (1, 1, "copy"),
        (0, 2, "copy"),
    ]
    assert newest["duration_ms"] > 300

    # Two requests at once.
    answers: list[tuple[int, Any]] = []
    askers = [threading.Thread(target=lambda: answers.append(_apart(job, "checkpoint", "words"))) for _ in range(2)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert [(code, answer["epochs"]) for code, answer in answers] == [(0, {"copy": 1})] * 2

    # What is damaged, or of a newer release, is refused, and the job goes on.
    requests = job.job / "control" / "requests"
    (requests / "torn.json").write_text('{"vers')
    (requests / "newer.json").write_text('{"version": 99, "kind": "explode"}')
    desk = Desk(job.job)
    wait_until(lambda: desk.answer_to("torn") and desk.answer_to("newer"), "answers")
    assert [desk.answer_to(name).outcome.value for name in ("torn", "newer")] == ["refused", "refused"]  # type: ignore[union-attr]

    code, answer = job.command("stop", "words", "--id", "the-end")
    assert (code, answer["outcome"], answer["epochs"], job.said()) == (0, "done", {"copy": 1}, "ended")
    assert "without a savepoint" in answer["detail"]
    assert job.command("stop", "words", "--id", "the-end") == (0, answer)
    assert job.command("stop", "words")[0] == 4
    assert job.command("info", "words")[1]["state"] == "STOPPED"
    assert "1 jobs" in job.text("list")[1]
    assert "STOPPED" in job.text("list", "-a")[1]


@turn(0, of=2)
def test_a_stop_while_the_sink_is_down_ends_the_job_and_says_what_is_pending(job: Operated):
    job.start()
    (job.folder / "busy").touch()
    job.write("rain")
    epoch = job.done() + 1
    wait_until(lambda: job.has_prepared(epoch), "an epoch that waits for its sink")
    code, answer = job.command("stop", "words")
    assert (code, answer["outcome"]) == (6, "pending")
    assert f"sink shelf to take epoch {epoch}" in answer["detail"]
    assert job.said() == "TG-SINK-UNAVAILABLE"
    assert "rain" not in job.rows()
    (job.folder / "busy").unlink()
    job.start()
    assert job.command("checkpoint", "words")[0] == 0
    assert job.rows().count("rain") == 1
    assert job.command("stop", "words")[0] == 0
    job.said()


def test_a_cancel_ends_at_once_and_what_was_under_way_comes_again(job: Operated):
    job.start()
    (job.folder / "slow").touch()
    job.write("hail")
    epoch = job.done() + 1
    offsets = job.job / "queries" / "copy" / "g1" / "spark" / "offsets" / str(epoch)
    wait_until(offsets.exists, "an epoch under way")
    code, answer = job.command("cancel", "words")
    assert (code, answer["outcome"], job.said()) == (0, "done", "ended")
    assert (job.done(), "hail" in job.rows()) == (epoch - 1, False)
    assert job.command("info", "words")[1]["state"] == "CANCELED"
    (job.folder / "slow").unlink()
    job.start()
    wait_until(lambda: job.done() == epoch, "the epoch again")
    assert job.rows().count("hail") == 1


def test_a_job_whose_driver_stands_still_gives_no_answer_and_its_death_is_seen(job: Operated):
    assert read_beat(job.job) is not None
    os.kill(job.process.pid, signal.SIGSTOP)
    code, none = job.command("stop", "words", "--id", "unheard", "--timeout", "500ms")
    assert (code, none["outcome"], "may still be carried out" in none["detail"]) == (7, "no answer", True)
    os.killpg(job.process.pid, signal.SIGKILL)
    job.process.wait()
    assert job.command("info", "words")[1]["state"] == "DIED"
    assert "DIED" in job.text("list")[1]
    code, answer = job.command("stop", "words", "--id", "unheard")
    assert (code, answer["outcome"]) == (1, "failed")
    assert "died" in answer["detail"]
    assert job.command("cancel", "words")[1]["outcome"] == "not running"
    assert list((job.job / "control" / "requests").glob("*.json")) == []


def _open_transactions(job: Operated) -> int:
    beat = read_beat(job.job)
    return 0 if beat is None else beat.queries[0].open_transactions


def _apart(job: Operated, *arguments: str) -> tuple[int, Any]:
    """The command in a process of its own."""
    program = [
        sys.executable,
        "-m",
        "tidegate.cli.main",
        *arguments,
        "--dir",
        str(job.folder / "checkpoints"),
        "--json",
    ]
    done = subprocess.run(program, capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout)


def test_a_request_for_a_driver_that_has_ended_does_not_strike_the_next_one(
    tmp_path_factory: pytest.TempPathFactory,
):
    """In this process: the desk's side of the driver alone, as at a start."""
    from tidegate.operate.beat import Incarnation
    from tidegate.spark.clerk import Clerk

    folder = tmp_path_factory.mktemp("desk")
    gone, mine = (Incarnation(host="here", process=7, started_at=float(at)) for at in (1, 2))
    desk = Desk(folder)
    desk.ask(Request(id="late", kind=Kind.CANCEL, to=gone, asked_at=1.0, asked_by="a test"))
    clerk = Clerk(Folder.of(folder), mine, [])
    clerk.begin(None)  # type: ignore[arg-type]
    answer = desk.answer_to("late")
    assert answer is not None
    assert (answer.outcome.value, desk.open_requests(3.0)) == ("too late", [])


@pytest.mark.more
@pytest.mark.parametrize("step", ["copied", "renamed"])
def test_killed_while_it_ends_with_a_savepoint_a_job_is_saved_by_the_same_command_again(tmp_path: Path, step: str):
    (tmp_path / "in").mkdir()
    saved = tmp_path / "saved"
    stop = ("stop", "words", "-p", str(saved), "--id", "one")
    with process_in(tmp_path) as driven:
        driven.write("sea", "sand")
        driven.start()
        wait_until(lambda: driven.done() == 0, "the first epoch done")
        (tmp_path / f"at-{step}").touch()
        assert driven.command(*stop, "--timeout", "5s")[0] == 7
        os.killpg(driven.process.pid, signal.SIGKILL)
        driven.process.wait()
        assert [verify(each) for each in savepoints_in(saved)[0]] == ([[]] if step == "renamed" else [])
        code, answer = driven.command(*stop)
        assert (code, "died before the job had ended" in answer["detail"]) == (1, True)
        code, answer = driven.command(*stop)
        assert (code, answer["outcome"], answer["epochs"]) == (0, "done", {"copy": 0})
    assert [path.name for path in saved.iterdir()] == [Path(answer["savepoint"]).name]
    assert verify(open_savepoint(Path(answer["savepoint"]))) == []
    (tmp_path / f"at-{step}").unlink()
    with process_in(tmp_path) as driven:
        driven.write("wind")
        driven.start()
        wait_until(lambda: driven.done() == 1, "the next epoch done")
        code, answer = driven.command("stop", "words", "-p", str(saved))
        assert (code, answer["epochs"], driven.said()) == (0, {"copy": 1}, "ended")
        assert driven.rows() == ["sand", "sea", "wind"]


def test_what_was_asked_of_the_supervisor_waits_for_the_driver_that_it_has_started(
    tmp_path_factory: pytest.TempPathFactory,
):
    """In this process, as above. What was asked of an earlier supervisor has come too late."""
    from tidegate.operate.beat import Incarnation, Post
    from tidegate.operate.supervisor_lock import take_supervisor_lock
    from tidegate.spark.clerk import Clerk

    folder = tmp_path_factory.mktemp("desk")
    desk = Desk(folder)
    mine = Incarnation(host="here", process=7, started_at=2.0)
    earlier = Incarnation(host="here", process=6, started_at=1.0, post=Post.SUPERVISOR)
    lock = take_supervisor_lock(folder, "job")
    for name, to in (("late", earlier), ("now", lock.holder.incarnation)):
        desk.ask(Request(id=name, kind=Kind.CANCEL, to=to, asked_at=1.0, asked_by="a test"))
    Clerk(folder, mine, []).begin(None)  # type: ignore[arg-type]
    lock.release()
    late = desk.answer_to("late")
    assert late is not None
    assert (late.outcome.value, [each.id for each in desk.open_requests(3.0)]) == ("too late", ["now"])
