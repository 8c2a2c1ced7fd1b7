"""What a real job leaves in its history beside its epochs: starts, kills, savepoints, ends."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from tests.jobs.under_run import UnderRun, in_session, table, wait_until, write
from tests.support.today import turn
from tidegate import operate


@turn(2, of=3)
def test_a_job_with_a_kill_two_savepoints_and_a_stop_has_each_of_them_in_its_history_once(tmp_path: Path):
    """First the supervisor dies with its driver, so that nothing records the kill. Then it sees its driver die."""
    write(tmp_path, 0, 2)
    with UnderRun(tmp_path, "for-ever") as run:
        driver = run.new_driver()
        wait_until(lambda: table(tmp_path) == [0, 1], "all rows", run)
        wait_until(lambda: kinds(tmp_path) == ["start"], "the start", run)
        os.kill(run.process.pid, signal.SIGSTOP)
        os.kill(driver, signal.SIGKILL)
        os.kill(run.process.pid, signal.SIGKILL)
        bound = time.monotonic() + 60
        while in_session(driver):
            assert time.monotonic() < bound, "nothing of the driver is left"
            time.sleep(0.02)
    write(tmp_path, 2, 2)
    with UnderRun(tmp_path, "for-ever", options=["-D", "restart.exponential.initial=100ms"]) as run:
        driver = run.new_driver()
        wait_until(lambda: table(tmp_path) == list(range(4)), "all rows", run)
        job = operate.open(tmp_path / "checkpoints", "numbers")
        job.savepoint(str(tmp_path / "saved"), id="first").wait()
        wait_until(lambda: kinds(tmp_path)[-1] == "savepoint", "the savepoint in the history", run)
        os.kill(driver, signal.SIGKILL)
        run.new_driver(driver)
        write(tmp_path, 4, 1)
        wait_until(lambda: table(tmp_path) == list(range(5)), "all rows", run)
        job.stop_with_savepoint(str(tmp_path / "saved"), id="last").wait()
        assert run.wait() == 0, run.tail()
    job.stop_with_savepoint(str(tmp_path / "saved"), id="later").wait()
    (read,) = job.positions()
    assert (read.query, read.source, read.lines) == ("copies", "numbers", ("entry 4 of the log of its files",))
    told = job.milestones()[::-1]
    assert [each.kind.value for each in told] == [
        *("start", "kill", "start", "savepoint"),
        *("start", "savepoint", "stop", "savepoint"),
    ]
    assert [str(tmp_path / "saved") in each.text for each in told if each.kind.value == "savepoint"] == [True] * 3
    assert told[-2].text == "the job is STOPPED"
    assert [each.code for each in job.failures()] == ["TG-DRIVER-DIED"]
    assert [each.at for each in told] == sorted(each.at for each in told)


def kinds(folder: Path) -> list[str]:
    return [each.kind.value for each in reversed(operate.open(folder / "checkpoints", "numbers").milestones())]
