"""What the benchmarks of long runs say of growth."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from bench.child import MEASURES, SUITES
from bench.growth import Size, driver_growth, worker_growth, workers_below

EARLY = Size(python=100.0, heap=50.0, worker=40.0, ledger_files=3, journal_files=30)
LATE = Size(python=104.0, heap=60.0, worker=41.0, ledger_files=3, journal_files=36)

DAEMON = """
import os, sys, time
for _ in range(2):
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)
print("forked", flush=True)
time.sleep(60)
"""


def test_each_size_grows_by_itself_and_files_by_their_number() -> None:
    figures = {figure.name: figure for figure in driver_growth("long-", EARLY, LATE, "from epoch 1 to 2")}
    assert {name: figure.value for name, figure in figures.items()} == {
        "long-memory-python": 4.0,
        "long-memory-jvm": 20.0,
        "long-ledger-files": 6.0,
    }
    assert [figure.is_met for figure in figures.values()] == [True, False, False]


def test_a_worker_that_was_not_seen_is_no_worker_that_did_not_grow() -> None:
    assert worker_growth("", EARLY, LATE, "").value == 2.5
    with pytest.raises(ValueError, match="no Python worker was seen"):
        worker_growth("", EARLY, Size(100.0, 50.0, 0.0, 3, 30), "")


@pytest.fixture(params=["tidegate.spark.worker_daemon", "pyspark.daemon"])
def daemon(request: pytest.FixtureRequest) -> Generator[subprocess.Popen[str]]:
    """Stands for that of a session of tidegate's, or for pyspark's: it has forked two workers."""
    command = [sys.executable, "-c", DAEMON, request.param]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "forked\n"
            yield process
        finally:
            for worker in children_of(process.pid):
                subprocess.run(["kill", "-9", str(worker)], check=False)
            process.kill()


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_the_workers_are_the_daemons_children_and_the_daemon_is_none(daemon: subprocess.Popen[str]) -> None:
    workers = sorted(int(path.name) for path in workers_below(os.getpid()))
    assert workers == sorted(children_of(daemon.pid))
    assert len(workers) == 2


def test_the_long_run_is_asked_for_by_its_own_name_only() -> None:
    assert "kafka-long" in MEASURES
    assert [suite for suite, measures in SUITES.items() if "kafka-long" in measures] == ["long"]
