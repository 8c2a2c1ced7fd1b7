"""Real jobs under `tidegate run`: killed, broken, stopped; and every row is there once."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pyspark
import pytest

from tests.jobs.under_run import NUMBERS, UnderRun, in_session, processes, table, wait_until, write
from tests.support.today import turn
from tidegate.storages.local.locks import acquire, read_holder

QUICKLY = ["-D", "restart.exponential.initial=100ms"]


@turn(1, of=4)
def test_a_job_is_kept_alive_and_every_row_is_there_once(tmp_path: Path):
    """The driver is killed, then an epoch fails: one restart of the process, and one of the query alone."""
    write(tmp_path, 0, 6)
    with UnderRun(tmp_path, "for-ever", options=QUICKLY) as run:
        first = run.new_driver()
        wait_until(lambda: table(tmp_path), "the first row", run)
        os.kill(first, signal.SIGKILL)
        second = run.new_driver(first)
        wait_until(lambda: run.holds_the_job(second), "the job's locks", run)
        assert in_session(first) == [], "the next driver runs when nothing of the last one is left"
        wait_until(lambda: table(tmp_path) == list(range(6)), "all rows", run)

        (tmp_path / "broken").touch()
        write(tmp_path, 6, 2)
        wait_until(lambda: len(run.failures()) >= 2, "a failed epoch", run)
        (tmp_path / "broken").unlink()
        wait_until(lambda: table(tmp_path) == list(range(8)), "all rows", run)
        assert run.driver() == second, "the session was kept"

        run.process.send_signal(signal.SIGTERM)
        assert run.wait() == 0
        assert in_session(second) == []
        of_query, of_driver = run.failures()[0], run.failures()[-1]
    assert (of_driver.code, of_driver.query) == ("TG-DRIVER-DIED", "copies")
    assert (of_query.code, of_query.query, of_query.epoch) == ("TG-EPOCH-FAILED", "copies", 6)
    assert all(failure.restart_in_seconds is not None for failure in run.failures())
    assert table(tmp_path) == list(range(8))


@turn(2, of=4)
def test_a_standby_takes_over_each_time_and_every_row_is_there_once(tmp_path: Path):
    """It had opened nothing of the job before."""
    write(tmp_path, 0, 6)
    job = tmp_path / "checkpoints" / "numbers"
    with UnderRun(tmp_path, "for-ever", options=[*QUICKLY, "-D", "restart.standby=true"]) as run:
        for kills in (1, 2):
            wait_until(lambda count=kills: len(ready(run)) == count, "a standby", run)
            standby = ready(run)[-1]
            run.sessions |= {standby, driver_of(job)}
            assert opened_below(standby, tmp_path) == []
            assert len(list((job / "queries/copies/g1/ledger/runs").iterdir())) == kills
            write(tmp_path, 6 * kills, 3)
            killed_at = time.time()
            os.kill(driver_of(job), signal.SIGKILL)
            write(tmp_path, 6 * kills + 3, 3)
            wait_until(lambda count=kills: table(tmp_path) == list(range(6 * count + 6)), "all rows", run)
            assert driver_of(job) == standby
            first_done = min(path.stat().st_mtime for path in done_epochs(job) if path.stat().st_mtime > killed_at)
            print(f"kill {kills}: a new epoch is done after {first_done - killed_at:.2f} s")
        run.process.send_signal(signal.SIGTERM)
        assert run.wait() == 0
        assert [in_session(session) for session in run.sessions] == [[] for _ in run.sessions]
        assert [failure.code for failure in run.failures()] == ["TG-DRIVER-DIED"] * 2
    assert table(tmp_path) == list(range(18))


def ready(run: UnderRun) -> list[int]:
    """The processes of the standbys that were ready, in order."""
    return [int(each) for each in re.findall(r"a standby is ready: process (\d+)", run.log.read_text())]


def driver_of(job: Path) -> int:
    holder = read_holder(job)
    assert holder is not None
    return holder.process


def done_epochs(job: Path) -> Iterator[Path]:
    yield from (job / "queries/copies/g1/ledger/done").iterdir()


def opened_below(session: int, folder: Path) -> list[str]:
    """The files below a folder that processes of a session have open, but for the log of the run."""
    found: list[str] = []
    for process in in_session(session):
        for entry in Path(f"/proc/{process}/fd").iterdir():
            with suppress(OSError):
                found.append(os.readlink(entry))
    return [each for each in found if each.startswith(f"{folder}/") and each != f"{folder}/log"]


@turn(3, of=4)
def test_a_driver_whose_supervisor_is_killed_ends_the_next_run_resumes_and_a_fresh_one_begins_anew(tmp_path: Path):
    write(tmp_path, 0, 3)
    with UnderRun(tmp_path, "for-ever", options=["-d", "--json"]) as background:
        assert background.wait() == 0
        said = json.loads(background.tail().splitlines()[-1])
        assert (said["job"], said["exit"]) == ("numbers", None)
        assert Path(said["log"]).parent == tmp_path / "checkpoints" / "numbers" / "logs"
        assert "running" in Path(said["log"]).read_text()
        (driver,) = children(said["process"])
        background.sessions.add(driver)
        os.kill(said["process"], signal.SIGKILL)
        bound = time.monotonic() + 60
        while in_session(driver):
            assert time.monotonic() < bound, "the driver ends"
            time.sleep(0.02)
        acquire(tmp_path / "checkpoints" / "numbers", "numbers").release()
    write(tmp_path, 3, 3)
    with UnderRun(tmp_path, "caught-up") as run:
        assert run.wait() == 0, run.tail()
        assert run.failures() == []
    assert table(tmp_path) == list(range(6))

    with UnderRun(tmp_path, "caught-up", options=["--fresh", "--json"]) as run:
        assert run.wait() == 0, run.tail()
    assert table(tmp_path) == sorted([*range(6), *range(6)]), "a new generation reads everything again"
    assert json.loads(run.tail().splitlines()[-1])["outcome"] == "finished"
    generations = tmp_path / "checkpoints" / "numbers" / "queries" / "copies"
    assert [path.name for path in generations.iterdir()] == ["g2"]


@pytest.mark.more
def test_a_driver_that_was_stopped_is_ended_and_started_again(tmp_path: Path):
    write(tmp_path, 0, 3)
    options = [*QUICKLY, "-D", "progress_timeout=5s"]
    with UnderRun(tmp_path, "for-ever", options=options, program=BEATING) as run:
        first = run.new_driver()
        wait_until(lambda: table(tmp_path) == [0, 1, 2], "all rows", run)
        os.kill(first, signal.SIGSTOP)
        stopped_at = time.monotonic()
        run.new_driver(first)
        assert 4 < time.monotonic() - stopped_at < 30
        write(tmp_path, 3, 3)
        wait_until(lambda: table(tmp_path) == list(range(6)), "all rows", run)
        run.process.send_signal(signal.SIGTERM)
        assert run.wait() == 0
        assert [failure.code for failure in run.failures()] == ["TG-DRIVER-STALLED"]


@pytest.mark.more
def test_a_jvm_that_outlives_both_is_waited_for(tmp_path: Path):
    """Supervisor and Python are killed while the JVM stands still: the next run starts when its lock is free."""
    write(tmp_path, 0, 3)
    with UnderRun(tmp_path, "for-ever") as first:
        driver = first.new_driver()
        wait_until(lambda: table(tmp_path), "the first row", first)
        (jvm,) = processes(driver, "java")
        os.kill(jvm, signal.SIGSTOP)
        first.process.kill()
        os.kill(driver, signal.SIGKILL)
        write(tmp_path, 3, 3)
        with UnderRun(tmp_path, "caught-up", options=QUICKLY) as second:
            wait_until(second.failures, "a start that was refused", second)
            assert second.failures()[0].code == "TG-DRIVER-ALIVE"
            os.kill(jvm, signal.SIGCONT)
            assert second.wait() == 0, second.tail()
        assert in_session(driver) == []
    assert table(tmp_path) == list(range(6))


@pytest.mark.more
def test_an_error_that_no_restart_cures_ends_the_job_at_once(tmp_path: Path):
    program = tmp_path / "program.py"
    program.write_text(NUMBERS_TEXT.replace('table="numbers")', 'table="numbers", key="nothing")'))
    write(tmp_path, 0, 1)
    with UnderRun(tmp_path, "for-ever", options=QUICKLY, program=program) as run:
        assert run.wait() == 1
        assert "TG-KEY-COLUMN" in run.tail()
        assert [(failure.code, failure.restart_in_seconds) for failure in run.failures()] == [("TG-KEY-COLUMN", None)]


@pytest.mark.more
def test_a_query_that_fails_too_often_ends_the_job_with_its_error(tmp_path: Path):
    write(tmp_path, 0, 1)
    (tmp_path / "broken").touch()
    options = ["-D", "restart.strategy=fixed-delay", "-D", "restart.fixed_delay.attempts=2"]
    with UnderRun(tmp_path, "for-ever", options=[*options, "-D", "restart.fixed_delay.delay=100ms"]) as run:
        driver = run.new_driver()
        assert run.wait() == 1
        assert "TG-EPOCH-FAILED" in run.tail()
        assert [failure.restart_in_seconds for failure in run.failures()] == [None, 0.1, 0.1]
        assert [failure.run for failure in run.failures()] == [3, 2, 1]
        assert in_session(driver) == []


@pytest.mark.more
@pytest.mark.parametrize("by", ["a signal", "the command"])
def test_a_stop_while_a_sink_is_down_says_that_an_epoch_waits(tmp_path: Path, by: str):
    write(tmp_path, 0, 2)
    with UnderRun(tmp_path, "for-ever", options=["-D", "stop_timeout=2s"]) as run:
        wait_until(lambda: table(tmp_path) == [0, 1], "the first rows", run)
        with closing(sqlite3.connect(tmp_path / "out.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            write(tmp_path, 2, 1)
            decided = tmp_path / "checkpoints/numbers/queries/copies/g1/ledger/decided/2"
            wait_until(decided.exists, "a decided epoch", run)
            if by == "a signal":
                run.process.send_signal(signal.SIGTERM)
            else:
                stop = [
                    sys.executable,
                    "-m",
                    "tidegate.cli.main",
                    "stop",
                    "numbers",
                    "--dir",
                    str(tmp_path / "checkpoints"),
                ]
                assert subprocess.run(stop, check=False).returncode == 6
            assert run.wait() == 6, run.tail()
            assert "TG-SINK-UNAVAILABLE" in run.tail()
            other.execute("ROLLBACK")
    with UnderRun(tmp_path, "caught-up") as run:
        assert run.wait() == 0, run.tail()
    assert table(tmp_path) == [0, 1, 2]


@pytest.mark.more
@pytest.mark.skipif(shutil.which("mount") is None, reason="needs mount")
def test_a_job_whose_storage_goes_away_goes_on_by_itself_when_it_is_back(tmp_path: Path):
    disk, place = tmp_path / "disk", tmp_path / "checkpoints"
    disk.mkdir()
    place.mkdir()
    if subprocess.run(["mount", "--bind", disk, place], check=False).returncode:
        pytest.skip("no right to mount a folder")
    options = ["restart.strategy=fixed-delay", "restart.fixed_delay.attempts=100", "restart.fixed_delay.delay=1s"]
    write(tmp_path, 0, 3)
    try:
        with UnderRun(tmp_path, "for-ever", options=[word for each in options for word in ("-D", each)]) as run:
            wait_until(lambda: table(tmp_path) == [0, 1, 2], "the first rows", run)
            subprocess.run(["umount", "--lazy", place], check=True)
            write(tmp_path, 3, 3)
            wait_until(lambda: "find the job again" in run.log.read_text(), "a start without the storage", run)
            assert table(tmp_path) == [0, 1, 2]
            subprocess.run(["mount", "--bind", disk, place], check=True)
            wait_until(lambda: table(tmp_path) == list(range(6)), "all rows", run)
            run.process.send_signal(signal.SIGTERM)
            assert run.wait() == 0
    finally:
        subprocess.run(["umount", "--lazy", place], check=False)


@pytest.mark.more
def test_state_in_memory_is_not_used_by_two_runs_of_one_process(tmp_path: Path):
    """The query alone has failed, and yet its driver is started anew."""
    write(tmp_path, 0, 1)
    (tmp_path / "broken").touch()
    with UnderRun(tmp_path, "for-ever", options=[*QUICKLY, "-D", "state.backend=hashmap"]) as run:
        first = run.new_driver()
        wait_until(run.failures, "a failed epoch", run)
        (tmp_path / "broken").unlink()
        run.new_driver(first)
        wait_until(lambda: table(tmp_path) == [0], "the row", run)
        run.process.send_signal(signal.SIGTERM)
        assert run.wait() == 0


@pytest.mark.more
def test_the_same_program_runs_under_spark_submit_without_a_supervisor(tmp_path: Path):
    write(tmp_path, 0, 3)
    spark = Path(pyspark.__file__).parent
    own = {"SPARK_HOME": str(spark), "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    command = [spark / "bin" / "spark-submit", NUMBERS, tmp_path, "caught-up"]
    done = subprocess.run(command, env={**os.environ, **own}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert table(tmp_path) == [0, 1, 2]
    assert not (tmp_path / "checkpoints" / "numbers" / "locks" / "supervisor.lock").exists()


def children(process: int) -> Iterator[int]:
    """The children of a process that lead a session of their own."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (entry / "stat").exists():
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[1]) == process and os.getsid(int(entry.name)) == int(entry.name):
                yield int(entry.name)


NUMBERS_TEXT = Path(__file__).with_name("numbers_program.py").read_text()
BEATING = Path(__file__).with_name("beating_program.py")
