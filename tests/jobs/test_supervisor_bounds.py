"""A supervisor in this process, with real drivers, and with bounds that a test can wait for."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from tests.jobs.test_supervisor import COUNT, DECLARING, KILLED, starts
from tests.jobs.under_run import in_session
from tidegate.cli.run import exit_of
from tidegate.core.errors import TidegateError
from tidegate.operate.failures import Failure, read_failures
from tidegate.settings.found import load_settings
from tidegate.settings.given import OVERRIDES_VARIABLE
from tidegate.storages.local.locks import acquire
from tidegate.supervise import child, cures, progress, session_processes, supervisor
from tidegate.supervise.news import News
from tidegate.supervise.outcomes import JobEnd, JobOutcome
from tidegate.supervise.supervisor import Supervisor

STARTING = """
supervised = declare()
def steps(*told):
    for step in told:
        time.sleep(0.5)
        supervised.moves(step)
"""
"""As a job whose start takes long. Where it stands still it does so for ever."""


TAKING = """
from tidegate.storages.local.locks import acquire
declare()
acquire(folder, "numbers")
sys.exit(9)
"""
"""As a job that needs its driver's lock, and then ends."""


@dataclass
class Heard(News):
    """The news, kept."""

    failures: list[Failure] = field(default_factory=list[Failure])
    left: list[int] = field(default_factory=list[int])
    unkept: list[TidegateError] = field(default_factory=list[TidegateError])

    def failed(self, failure: Failure) -> None:
        self.failures.append(failure)

    def stays(self, processes: Sequence[int]) -> None:
        self.left.extend(processes)

    def history_failed(self, error: TidegateError) -> None:
        self.unkept.append(error)


@pytest.fixture
def _short_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_START_SECONDS", 0.0)


def supervise(folder: Path, program: str, news: News, *settings: str) -> JobEnd:
    """Run the program to its end, with a driver that is started again at once and for ever."""
    file = folder / "program.py"
    file.write_text(COUNT + DECLARING + program)
    always = ["restart.strategy=fixed-delay", "restart.fixed_delay.attempts=100", "restart.fixed_delay.delay=100ms"]
    environment = {**os.environ, OVERRIDES_VARIABLE: json.dumps([*always, *settings])}
    known = load_settings({}, environment=environment)
    return Supervisor([str(file), str(folder)], known, environment=environment, news=news).run()


@pytest.mark.usefixtures("_short_starts")
def test_a_start_that_takes_long_and_moves_is_left_alone(tmp_path: Path):
    news = Heard()
    program = f'{STARTING}steps("1", "2", "3", "4", "5", "6")\nsys.exit(9)'
    assert supervise(tmp_path, program, news, "progress_timeout=2s").code == 9
    assert (len(starts(tmp_path)), news.failures) == (1, [])


@pytest.mark.usefixtures("_short_starts")
def test_a_start_that_goes_round_in_a_circle_stands_still(tmp_path: Path):
    """As one that tries the same commit again and again."""
    news = Heard()
    program = f'if not first:\n    sys.exit(9)\n{STARTING}steps("1", *["2"] * 600)'
    assert supervise(tmp_path, program, news, "progress_timeout=2s").code == 9
    assert len(starts(tmp_path)) == 2
    (stalled,) = news.failures
    assert stalled.code == "TG-DRIVER-STALLED"
    assert "the last step of its start was: 2" in stalled.what


def test_a_job_that_another_driver_keeps_is_refused_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cures, "_A_MINUTE_SECONDS", 1.0)
    news = Heard()
    with acquire(tmp_path / "checkpoints" / "numbers", "numbers"):
        assert exit_of(supervise(tmp_path, TAKING, news)) == 4
    assert {failure.code for failure in news.failures} == {"TG-DRIVER-ALIVE"}
    assert len(news.failures) >= 2
    assert f"process {os.getpid()} on" in news.failures[-1].what


def test_a_dying_driver_is_waited_for(tmp_path: Path):
    dying = acquire(tmp_path / "checkpoints" / "numbers", "numbers")

    class Dies(Heard):
        def failed(self, failure: Failure) -> None:
            super().failed(failure)
            dying.release()

    news = Dies()
    assert supervise(tmp_path, TAKING, news).code == 9
    assert [failure.code for failure in news.failures] == ["TG-DRIVER-ALIVE"]


@pytest.fixture
def _nothing_obeys_sigkill(monkeypatch: pytest.MonkeyPatch) -> None:
    """As processes that wait for a disk which does not answer; for less long than in earnest."""
    monkeypatch.setattr(session_processes, "_kill", lambda _process: None)
    monkeypatch.setattr(child, "GRACE_SECONDS", 0.0)
    monkeypatch.setattr(child, "end_processes", partial(session_processes.end_processes, bound_seconds=0.3))
    monkeypatch.setattr(child, "_KILLED_SECONDS", 0.3)


@pytest.mark.usefixtures("_nothing_obeys_sigkill")
def test_what_nothing_ends_is_named_and_holds_nobody_up(tmp_path: Path):
    program = f"""
if not first:
    sys.exit(9)
subprocess.Popen(["sleep", "5"])
{KILLED}
"""
    news = Heard()
    assert supervise(tmp_path, program, news).code == 9
    (left,) = in_session(starts(tmp_path)[0])
    assert news.left == [left]


@pytest.mark.usefixtures("_nothing_obeys_sigkill", "_short_starts")
def test_a_driver_that_cannot_be_killed_keeps_the_next_one_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It holds its lock, so the job ends with exit code 4, and no second driver has written beside it."""
    monkeypatch.setattr(cures, "_A_MINUTE_SECONDS", 0.5)
    monkeypatch.setattr(child.DriverProcess, "kill", deaf(child.DriverProcess.kill))
    news = Heard()
    writes = 'print("x", file=open(here / "writes", "a"), flush=True)'
    program = TAKING.replace("sys.exit(9)", f"{writes}\nos.kill(os.getpid(), signal.SIGSTOP)")
    assert exit_of(supervise(tmp_path, program, news, "progress_timeout=2s")) == 4
    first, *_ = starts(tmp_path)
    assert news.failures[0].code == "TG-DRIVER-STALLED"
    assert {failure.code for failure in news.failures[1:]} == {"TG-DRIVER-ALIVE"}
    assert (news.left, in_session(first)) == ([first], [first])
    assert (tmp_path / "writes").read_text() == "x\n"
    os.kill(first, signal.SIGKILL)


def deaf(kill: Callable[[child.DriverProcess], None]) -> Callable[[child.DriverProcess], None]:
    """`kill` of a driver that does not obey it: the signal does nothing."""

    def kill_in_vain(driver: child.DriverProcess) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(child.signal, "SIGKILL", 0)
            kill(driver)

    return kill_in_vain


@pytest.mark.parametrize(("asked", "outcome"), [(True, JobOutcome.STOPPED), (False, JobOutcome.FINISHED)])
def test_the_driver_says_whether_its_job_was_stopped_or_has_finished(tmp_path: Path, asked: bool, outcome: JobOutcome):
    """A command has stopped it, of which its supervisor knows nothing."""
    assert supervise(tmp_path, ending(f"report=None, job_ended=True, asked={asked}"), Heard()).outcome is outcome


OLD_BEAT = """
from tidegate.operate.beat import Beat, JobState, write_beat
folder.mkdir(parents=True, exist_ok=True)
write_beat(folder, Beat(job="numbers", job_id="0123abcd", host="here", process=os.getpid(), state=JobState.STOPPED,
                        started_at=1.0, at=1.0, progress_at=1.0))
"""
"""As an earlier driver of the same number has left it, in a container that was stopped and started again."""


def test_the_beat_of_an_older_process_of_the_same_number_says_nothing_of_this_one(tmp_path: Path):
    program = f"if not first:\n    sys.exit(9)\n{OLD_BEAT}declare()\ntime.sleep(1.5)\n{KILLED}"
    assert supervise(tmp_path, program, Heard()).code == 9
    assert len(starts(tmp_path)) == 2


def test_a_folder_that_cannot_be_looked_at_ends_no_job(tmp_path: Path):
    """A file server that has lost it answers with this or that; here a folder stands where the beat should."""
    program = "declare()\n(folder / 'beat.json').mkdir(parents=True)\ntime.sleep(1.5)\nsys.exit(9)"
    assert supervise(tmp_path, program, Heard()).code == 9
    assert len(starts(tmp_path)) == 1


def test_a_beat_that_somebody_has_spoilt_ends_no_job(tmp_path: Path):
    spoilt = b'{"job":"\xff"}'
    program = f"declare()\n(folder / 'beat.json').write_bytes({spoilt!r})\ntime.sleep(1.5)\nsys.exit(9)"
    assert supervise(tmp_path, program, Heard()).code == 9
    assert len(starts(tmp_path)) == 1


def test_a_full_disk_keeps_no_failure_and_ends_no_job(tmp_path: Path):
    program = f"if not first:\n    sys.exit(9)\ndeclare()\n(folder / 'history').touch()\n{KILLED}"
    news = Heard()
    assert supervise(tmp_path, program, news).code == 9
    assert [failure.code for failure in news.failures] == ["TG-DRIVER-DIED"]
    assert len(news.unkept) == 1


GOES_AND_COMES = """
from tidegate.supervise.line import Running
away = here / "away"
if first:
    supervised = declare()
    (folder / "job.json").touch()
    supervised._say(Running("0123abcd"))
    time.sleep(1)
    folder.rename(away)
    os.kill(os.getpid(), signal.SIGKILL)
try:
    declare()
except BaseException:
    away.rename(folder)
    raise
sys.exit(9)
"""
"""As a job that has run, whose disk is taken away, and is back by its third start."""


def test_a_job_whose_folder_is_away_is_not_begun_anew_and_goes_on_when_it_is_back(tmp_path: Path):
    news = Heard()
    assert supervise(tmp_path, GOES_AND_COMES, news).code == 9
    assert [failure.code for failure in news.failures] == ["TG-DRIVER-DIED", "TG-STORAGE-UNUSABLE"]
    assert "job.json" in news.failures[1].where
    assert len(starts(tmp_path)) == 3
    assert [error.code for error in news.unkept] == ["TG-STORAGE-UNUSABLE"], "nothing is made in its place"
    kept = read_failures(tmp_path / "checkpoints" / "numbers")
    assert [failure.code for failure in kept] == ["TG-STORAGE-UNUSABLE"]


LEAVES_A_THREAD = """
if not first:
    sys.exit(9)
import threading
from tidegate.supervise.line import Running
declare()._say(Running("0123abcd"))
threading.Thread(target=time.sleep, args=(20,)).start()
raise ValueError("no")
"""
"""As one that fails beside a thread of its own: Python waits for it at its end."""


def test_a_driver_that_has_failed_and_does_not_exit_is_ended_and_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(supervisor, "_EXIT_SECONDS", 0.5)
    news, begun = Heard(), time.monotonic()
    assert supervise(tmp_path, LEAVES_A_THREAD, news).code == 9
    assert [failure.code for failure in news.failures] == ["TG-PROGRAM-FAILED"], (
        "what it has said, not how it was ended"
    )
    assert time.monotonic() - begun < 18, "it was waited for"


FAILED = """report=FailureReport(code="TG-EPOCH-FAILED", codes=("TG-EPOCH-FAILED",), what="", where="", remedy="")"""


@pytest.mark.parametrize(
    ("finished", "outcome"),
    [("report=None, job_ended=True", JobOutcome.FINISHED), (FAILED, JobOutcome.STOPPED)],
    ids=["it had finished", "it had failed, and is not started again"],
)
def test_a_signal_that_comes_after_the_last_word_does_not_change_it(tmp_path: Path, finished: str, outcome: JobOutcome):
    """A job that had failed is stopped as in the pause before its restart."""
    signalled = f"time.sleep(1)\nos.kill({os.getpid()}, signal.SIGTERM)\ntime.sleep(0.5)"
    news = Heard()
    assert supervise(tmp_path, ending(finished, signalled), news).outcome is outcome
    assert len(starts(tmp_path)) == 1
    assert len(news.failures) == (outcome is JobOutcome.STOPPED)


def test_a_stop_while_the_program_says_its_last_word_does_not_cost_it(tmp_path: Path):
    program = f"""
from tidegate.spark.supervised import current
supervised = current()
say = supervised.ended
def slowly(error, code):
    os.kill({os.getpid()}, signal.SIGTERM)
    time.sleep(1)
    say(error, code)
supervised.ended = slowly
sys.exit(7)
"""
    news = Heard()
    ended = supervise(tmp_path, program, news)
    assert (ended.outcome, ended.code, news.failures) == (JobOutcome.STOPPED, 7, [])


def test_a_signal_that_comes_while_the_ending_is_printed_does_not_change_it(tmp_path: Path):
    """Its reader is slow, so that it waits with what it says; it says it, and keeps its exit code."""
    (tmp_path / "program.py").write_text(f"{COUNT}sys.exit(7)")
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writing, b"\n" * 4096)
    os.set_blocking(writing, True)
    command = [sys.executable, "-m", "tidegate.cli.main", "run", "--json", str(tmp_path / "program.py"), str(tmp_path)]
    with subprocess.Popen(command, stdout=writing, cwd=tmp_path) as printing:
        os.close(writing)
        while not (starts(tmp_path) and in_session(starts(tmp_path)[0]) == []):
            time.sleep(0.05)
        time.sleep(1)
        printing.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        with os.fdopen(reading, "rb") as pipe:
            assert json.loads(pipe.read().split()[-1])["outcome"] == "finished"
        assert printing.wait() == 7


def ending(finished: str, then: str = "") -> str:
    """A job that has run, says its last word, and ends a little later."""
    return f"""
from tidegate.supervise.line import Finished, Running
from tidegate.operate.reports import FailureReport
supervised = declare()
supervised._say(Running("0123abcd"))
supervised._say(Finished({finished}))
{then}
os._exit(0)
"""
