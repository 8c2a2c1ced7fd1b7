"""A second driver under `tidegate run`, as processes. The programs here need no Spark, but for the last one."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.jobs.test_supervisor import DECLARING, run, starts
from tests.jobs.test_supervisor_bounds import Heard, supervise
from tests.jobs.under_run import in_session, wait_until
from tidegate.supervise.outcomes import JobOutcome

STANDBY = "restart.standby=true"

JOB = """
from tidegate.operate.beat import Beat, JobState, QueryBeat, write_beat
from tidegate.spark.supervised import Role, current
from tidegate.supervise.line import Running
me = os.getpid()
def wait_for(name, seconds=60):
    end = time.monotonic() + seconds
    while not (here / name).exists():
        if time.monotonic() > end:
            sys.exit(99)
        time.sleep(0.01)
def stand_by():
    current().define("numbers")
    if current().role is Role.STANDBY:
        (here / "stands").write_text(str(me))
        current().stand_by()
def runs():
    now = time.time() + 1
    query = QueryBeat(uid="q", run=1, epoch=0, finished=0, rows=0, rows_per_second=0.0, last_done_at=now)
    said = dict(job="numbers", job_id="0123abcd", host="here", process=me, started_at=now, at=now, progress_at=now)
    write_beat(folder, Beat(state=JobState.RUNNING, queries=(query,), **said))
    (folder / "job.json").touch()
    current()._say(Running("0123abcd"))
def die():
    os.kill(me, signal.SIGKILL)
stand_by()
declare()
print(me, file=open(here / "declared", "a"), flush=True)
runs()
"""
"""As a job with a standby. Its first epoch is done as soon as it runs."""

DIES_ONCE_IT_HAS_A_STANDBY = "if not first:\n    sys.exit(9)\nwait_for('stands')\n"


@dataclass
class Standbys(Heard):
    ready: list[int] = field(default_factory=list[int])
    taken: list[int] = field(default_factory=list[int])
    lost: list[str] = field(default_factory=list[str])
    then: Callable[[int], None] = lambda _process: None
    """Called when a standby is ready."""

    def standby_ready(self, process: int, memory: int) -> None:
        assert memory > 1_000_000
        self.ready.append(process)
        self.then(process)

    def standby_takes_over(self, process: int) -> None:
        self.taken.append(process)

    def standby_lost(self, why: str) -> None:
        self.lost.append(why)


def declared(folder: Path) -> list[int]:
    """The drivers that have begun to start the job, in order."""
    return [int(line) for line in (folder / "declared").read_text().split()]


def test_the_standby_goes_on_when_the_driver_dies_and_the_pause_of_the_strategy_counts(tmp_path: Path):
    news = Standbys()
    noted = 'print(time.time(), file=open(here / "times", "a"), flush=True)\n'
    program = f"{JOB}{noted}{DIES_ONCE_IT_HAS_A_STANDBY}time.sleep(0.5)\n{noted}die()"
    ended = supervise(tmp_path, program, news, STANDBY, "restart.fixed_delay.delay=1s")
    assert (ended.code, ended.restarts) == (9, 1)
    first, second, *_ = starts(tmp_path)
    assert declared(tmp_path) == [first, second]
    assert (news.ready, news.taken, news.lost) == ([second], [second], [])
    assert [failure.code for failure in news.failures] == ["TG-DRIVER-DIED"]
    _, died, again = (float(line) for line in (tmp_path / "times").read_text().split())
    assert again - died >= 1.0
    assert [in_session(session) for session in starts(tmp_path)] == [[] for _ in starts(tmp_path)]


def test_a_standby_whose_declaration_is_old_makes_room_for_a_new_driver(tmp_path: Path):
    """It is no failure of the job, which has one restart left."""
    news = Standbys()
    old = JOB.replace("        current().stand_by()\n", "        current().stand_by()\n        refuse()\n")
    refuse = "def refuse():\n    current().cannot_take_over('its columns have changed')\n"
    dies = f"if len(declared()) == 2:\n    sys.exit(9)\n{DIES_ONCE_IT_HAS_A_STANDBY}die()"
    count = 'def declared():\n    return (here / "declared").read_text().split()\n'
    ended = supervise(tmp_path, f"{refuse}{count}{old}{dies}", news, STANDBY, "restart.fixed_delay.attempts=1")
    assert (ended.code, ended.restarts) == (9, 1)
    first, second, third, *_ = starts(tmp_path)
    assert declared(tmp_path) == [first, third]
    assert news.taken == [second]
    assert "its columns have changed" in news.lost[0]


@pytest.mark.more
def test_a_standby_that_dies_while_it_takes_over_is_a_failure_as_any_other(tmp_path: Path):
    news = Standbys()
    program = f"{JOB.replace('declare()', 'begin()')}{DIES_ONCE_IT_HAS_A_STANDBY}die()"
    begin = "def begin():\n    declare()\n    if len(started()) == 2:\n        os.kill(me, signal.SIGKILL)\n"
    count = 'def started():\n    return (here / "starts").read_text().split()\n'
    ended = supervise(tmp_path, f"{begin}{count}{program}", news, STANDBY)
    assert (ended.code, ended.restarts) == (9, 2)
    assert [failure.code for failure in news.failures] == ["TG-DRIVER-DIED"] * 2
    assert len(starts(tmp_path)) == 3


def test_the_death_of_a_standby_does_not_touch_the_job(tmp_path: Path):
    news = Standbys(then=lambda process: os.kill(process, signal.SIGKILL))
    ended = supervise(tmp_path, f"{JOB}wait_for('stands')\ntime.sleep(2)\nsys.exit(9)", news, STANDBY)
    assert (ended.code, ended.restarts, news.failures) == (9, 0, [])
    assert len(news.lost) == 1
    assert len(starts(tmp_path)) == 2


@pytest.mark.more
def test_if_both_die_at_once_a_new_driver_is_started(tmp_path: Path):
    news = Standbys(then=lambda process: os.kill(process, signal.SIGKILL))
    both = f"{JOB}if len(declared()) == 2:\n    sys.exit(9)\n{DIES_ONCE_IT_HAS_A_STANDBY}die()"
    count = 'def declared():\n    return (here / "declared").read_text().split()\n'
    ended = supervise(tmp_path, count + both, news, STANDBY)
    assert (ended.code, ended.restarts) == (9, 1)
    assert len(news.failures) == 1


WAITS = f"{DECLARING}{JOB}time.sleep(600)"


def test_a_stop_ends_the_standby_too(tmp_path: Path):
    with run(tmp_path, WAITS, "-D", STANDBY) as stopped:
        wait_until(lambda: "a standby is ready" in stopped.tail(), "the standby", stopped)
        stopped.process.send_signal(signal.SIGTERM)
        assert stopped.wait(30) == 0
        assert [in_session(session) for session in starts(tmp_path)] == [[], []]
        assert "the standby has died" not in stopped.tail()


def test_a_standby_whose_supervisor_is_killed_ends(tmp_path: Path):
    with run(tmp_path, WAITS, "-D", STANDBY) as orphaned:
        wait_until(lambda: "a standby is ready" in orphaned.tail(), "the standby", orphaned)
        orphaned.process.kill()
        end = time.monotonic() + 60
        while any(in_session(session) for session in starts(tmp_path)):
            assert time.monotonic() < end, "they end"
            time.sleep(0.05)


def test_without_the_setting_there_is_no_standby(tmp_path: Path):
    ended = supervise(tmp_path, f"{JOB}time.sleep(2)\nsys.exit(9)", Standbys())
    assert (ended.outcome, ended.code) == (JobOutcome.FINISHED, 9)
    assert len(starts(tmp_path)) == 1
