"""A job in the program's own process: signals, cells of a notebook, and modules that lie beside the program."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.driver import PYTHON_PATH
from tests.support.today import sampled, turn
from tidegate.operate.beat import JobState, read_beat
from tidegate.storages.local.locks import acquire

STARTS = """
import sys, time
from tests.support.session import small_session
from tidegate import Job, PrintSink, RateSource

job = Job("rates", spark=small_session(), checkpointing_dir=".tidegate", checkpointing_interval="200ms")
job.query("query", job.source("rate", RateSource(rows_per_second=5)), sinks=[PrintSink("out")])
"""

WAITS = """
handle = job.start()
print("started", flush=True)
handle.wait()
print("ended", handle.status().running, flush=True)
"""

RUNS = """
job.run()
print("ended", flush=True)
"""

STRUCK = """
import os, signal

class Struck(PrintSink):
    def pending(self, identity):
        os.killpg(0, signal.SIGTERM)
        time.sleep(2)
        return super().pending(identity)

job.query("struck", job.source("more", RateSource(rows_per_second=5)), sinks=[Struck("struck-out")])
"""

SLEEPS = """
handle = job.start()
print("started", flush=True)
while True:
    time.sleep(0.1)
"""

CELLS = """
import os, signal, threading
from pyspark import SparkContext

def interrupt_in(seconds):
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()

def cell(work):
    try:
        return work()
    except KeyboardInterrupt:
        return "interrupted"

handle = job.start()
while handle.status().queries[0].epochs < 2:
    time.sleep(0.05)
interrupt_in(0.5)
print("another cell:", cell(lambda: time.sleep(30)))
before = handle.status().queries[0].epochs
while handle.status().queries[0].epochs < before + 2:
    time.sleep(0.05)
print("goes on:", handle.status().running, handle.error())
interrupt_in(0.5)
print("this cell:", cell(handle.wait))
print("ended well:", not handle.status().running, handle.error())
interrupt_in(0.5)
print("behind it:", cell(lambda: time.sleep(30)), flush=True)
"""


def start(folder: Path, text: str) -> subprocess.Popen[str]:
    (folder / "app.py").write_text(STARTS + text)
    with (folder / "err").open("w") as errors:
        return subprocess.Popen(
            [sys.executable, "app.py"],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment(),
            text=True,
            start_new_session=True,
        )


def environment() -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": PYTHON_PATH,
    }


def await_epoch(folder: Path) -> None:
    end = time.monotonic() + 120
    while not list(folder.glob(".tidegate/rates/queries/query/g1/ledger/done/*")):
        assert time.monotonic() < end, (folder / "err").read_text()[-3_000:]
        time.sleep(0.05)


def ended_cleanly(folder: Path) -> bool:
    """Whether every epoch that is decided is done, and the job said that it was stopped, without an error."""
    job = folder / ".tidegate" / "rates"
    ledger = job / "queries" / "query" / "g1" / "ledger"
    decided, done = ({path.name for path in ledger.glob(f"{name}/*")} for name in ("decided", "done"))
    acquire(job, "rates").release()
    beat = read_beat(job)
    assert beat is not None
    return decided <= done and (beat.state, beat.error) == (JobState.STOPPED, "")


@turn(1, of=2)
def test_sigterm_to_the_whole_group_stops_a_job_that_the_program_waits_for(tmp_path: Path) -> None:
    """As `timeout` sends it: the JVM gets it, too. The program goes on behind it, and chooses its exit code itself."""
    process = start(tmp_path, WAITS)
    await_epoch(tmp_path)
    os.killpg(process.pid, signal.SIGTERM)
    goes_on_behind_a_clean_end(process, tmp_path)


@pytest.mark.more
def test_sigterm_to_the_whole_group_stops_a_job_that_starts(tmp_path: Path) -> None:
    goes_on_behind_a_clean_end(start(tmp_path, STRUCK + RUNS), tmp_path)


def goes_on_behind_a_clean_end(process: subprocess.Popen[str], folder: Path) -> None:
    out, _ = process.communicate(timeout=120)
    errors = (folder / "err").read_text()
    assert process.returncode == 0, errors[-3_000:]
    assert "Traceback" not in errors
    assert out.splitlines()[-1].startswith("ended")
    assert ended_cleanly(folder)


@turn(0, of=2)
def test_sigterm_ends_a_program_that_does_something_else_when_its_job_has_stopped(tmp_path: Path) -> None:
    process = start(tmp_path, SLEEPS)
    await_epoch(tmp_path)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)
    assert process.returncode == -signal.SIGTERM
    assert ended_cleanly(tmp_path)


@turn(0, of=4)
def test_an_interrupt_stops_the_job_of_its_own_cell_alone(tmp_path: Path) -> None:
    """A notebook interrupts the process by SIGINT, whichever cell runs; pyspark then cancels all that Spark does."""
    process = start(tmp_path, CELLS)
    out, _ = process.communicate(timeout=180)
    told = dict(line.split(": ", 1) for line in out.splitlines() if ": " in line and "epoch" not in line)
    assert told == {
        "another cell": "interrupted",
        "goes on": "True None",
        "this cell": "True",
        "ended well": "True None",
        "behind it": "interrupted",
    }, (tmp_path / "err").read_text()[-3_000:]
    assert ended_cleanly(tmp_path)


BESIDE = """
from pyspark.sql import functions as F
from tidegate import FileSource, Job, SQLiteSink
from words import shout

job = Job("words", checkpointing_dir="{folder}/checkpoints")
rows = job.source("in", FileSource("{folder}/in", format="json", schema="word string"))
sink = SQLiteSink("table", "{folder}/out.db", table="words")
job.query("query", rows.select(F.udf(shout, "string")("word").alias("word")), sinks=[sink])
job.run(until="caught-up")
"""


@pytest.mark.parametrize(
    "command",
    sampled(
        [
            pytest.param([sys.executable], id="python"),
            pytest.param([sys.executable, "-m", "tidegate.cli.main", "run"], id="run"),
            pytest.param([sys.executable, "-m", "tidegate.cli.main", "run", "-d"], id="detached"),
            pytest.param(["spark-submit"], id="spark-submit"),
        ]
    ),
)
def test_a_module_beside_the_program_is_found_from_any_folder_and_in_tasks(tmp_path: Path, command: list[str]) -> None:
    place, elsewhere = tmp_path / "place", tmp_path / "elsewhere"
    (place / "in").mkdir(parents=True)
    elsewhere.mkdir()
    (place / "in" / "0.json").write_text('{"word": "sea"}\n')
    (place / "words.py").write_text("def shout(word):\n    return word.upper()\n")
    (place / "app.py").write_text(BESIDE.format(folder=place))
    (place / "bin").mkdir()
    (place / "bin" / "python3").write_text("#!/bin/sh\nexit 1\n")  # not the program's Python, and no task's
    (place / "bin" / "python3").chmod(0o755)
    path = os.pathsep.join([str(place / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    variables = {**environment(), "PATH": path}
    if command == ["spark-submit"]:
        variables["PYSPARK_PYTHON"] = sys.executable
    else:
        variables.pop("PYSPARK_PYTHON", None)
    done = subprocess.run(
        [*command, str(place / "app.py")],
        cwd=elsewhere,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3_000:]
    end = time.monotonic() + 60
    while not (place / "out.db").exists() and time.monotonic() < end:  # in the background it goes on
        time.sleep(0.1)
    rows: list[tuple[str]] = []
    while not rows and time.monotonic() < end:
        with sqlite3.connect(place / "out.db") as database:
            try:
                rows = database.execute("SELECT word FROM words").fetchall()
            except sqlite3.OperationalError:
                time.sleep(0.1)
    assert rows == [("SEA",)]
