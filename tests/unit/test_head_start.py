"""When the next driver is started before a pause is over, and what becomes of it; and whether its JVM is of use."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.unit.test_standby import FakeDriver
from tidegate.machine.class_archive import SUBMIT_OPTIONS
from tidegate.spark.early_jvm import PYTHON, EarlyJvm, Surroundings, environment_of_a_jvm
from tidegate.spark.jvm_output import QuietJvm
from tidegate.storages.schemes import Folder
from tidegate.supervise.head_start import HEAD_START, LONGEST_SECONDS, HeadStart
from tidegate.supervise.line import TakeOver

JOB = Path("/checkpoints/job")


class Started:
    """A head start under test, and the drivers that it has started, each with its variables."""

    def __init__(self) -> None:
        self.variables: list[Mapping[str, str]] = []
        self.drivers: list[FakeDriver] = []
        self.head_start = HeadStart(self._start)

    def _start(self, variables: Mapping[str, str]) -> FakeDriver:
        self.variables.append(variables)
        self.drivers.append(FakeDriver(1 << 23))
        return self.drivers[-1]


@pytest.mark.parametrize("declared", [False, True])
def test_a_driver_whose_jvm_is_not_known_is_started_when_it_is_its_turn_and_runs_at_once(declared: bool):
    begun = Started()
    if declared:
        begun.head_start.declared(Folder.of(JOB), own_jvm=False)
    begun.head_start.look(0.0)
    assert begun.drivers == []
    assert begun.head_start.take().told == []
    assert begun.variables == [{}]


def test_the_next_driver_gets_ahead_near_the_end_of_the_pause_and_runs_when_the_pause_is_over():
    begun = Started()
    begun.head_start.declared(Folder.of(JOB), own_jvm=True)
    begun.head_start.look(LONGEST_SECONDS + 1)
    assert begun.drivers == []
    for left in (LONGEST_SECONDS, 1.0, 0.5):
        begun.head_start.look(left)
    [driver] = begun.drivers
    assert driver.told == []
    assert begun.head_start.take() is driver
    assert driver.told == [TakeOver()]
    assert begun.variables == [{HEAD_START: str(JOB)}]


def test_a_driver_that_comes_without_a_pause_still_starts_its_jvm_while_it_imports():
    begun = Started()
    begun.head_start.declared(Folder.of(JOB), own_jvm=True)
    assert begun.head_start.take().told == [TakeOver()]
    assert begun.variables == [{HEAD_START: str(JOB)}]


def test_one_that_dies_before_its_turn_is_no_failure_and_a_driver_without_a_head_start_follows():
    begun = Started()
    begun.head_start.declared(Folder.of(JOB), own_jvm=True)
    begun.head_start.look(0.0)
    begun.drivers[0].kill()
    driver = begun.head_start.take()
    assert (driver is begun.drivers[1], driver.told) == (True, [])
    assert begun.drivers[0].closed == [0.0]
    assert begun.variables[1] == {}


def test_a_long_pause_and_the_end_of_the_job_end_it():
    begun = Started()
    begun.head_start.declared(Folder.of(JOB), own_jvm=True)
    for end in (lambda: begun.head_start.look(60.0), begun.head_start.end):
        begun.head_start.look(0.0)
        end()
        assert (begun.drivers[-1].returned, begun.drivers[-1].closed) == (-9, [0.0])
    begun.head_start.end()
    assert len(begun.drivers) == 2


class Gateway:
    """Of a JVM that was never started."""

    def __init__(self) -> None:
        self.ended = False
        self.proc: Any = self
        self.stdin: Any = self

    def shutdown(self) -> None:
        pass

    def close(self) -> None:
        self.ended = True


@pytest.mark.parametrize(
    ("later", "fits"),
    [
        (Surroundings({"A": "1"}, "/here"), True),
        (Surroundings({"A": "1", "PYSPARK_SUBMIT_ARGS": "--driver-memory 4g pyspark-shell"}, "/here"), False),
        (Surroundings({}, "/here"), False),
        (Surroundings({"A": "1"}, "/elsewhere"), False),
    ],
)
def test_a_jvm_is_used_only_if_the_program_has_left_what_it_takes_from_its_parent(later: Surroundings, fits: bool):
    gateway: Any = Gateway()
    relay: Any = None
    jvm = QuietJvm(gateway, relay)
    assert (EarlyJvm(jvm, Surroundings({"A": "1"}, "/here")).fitting(later) is jvm) is fits
    assert gateway.ended is not fits


def test_the_environment_of_a_jvm_is_that_of_the_program_again_when_the_jvm_runs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(SUBMIT_OPTIONS, "-Dmine=1")
    monkeypatch.delenv(PYTHON, raising=False)
    before = Surroundings.now()
    with environment_of_a_jvm(Folder.of("/jobs/words")):
        options = os.environ[SUBMIT_OPTIONS]
        log = '"-Dtidegate.spark.log=/jobs/words/logs/spark.log"'
        assert (options.startswith("-Dmine=1 "), options.endswith(log)) == (True, True)
        assert os.environ[PYTHON] == sys.executable
    assert Surroundings.now() == before


_BESIDE_THE_JVM = """
import os, sys, threading
from tidegate.spark.get_ahead import get_ahead
from tidegate.storages.schemes import Folder

start = threading.Thread.start

def started(thread):
    if thread.name == "tidegate-imports":
        print(hasattr(sys.modules.get("pyspark"), "SQLContext"), "PYSPARK_PYTHON" in os.environ)
    start(thread)

threading.Thread.start = started
get_ahead(Folder.of("/jobs/words"))
"""


def test_modules_are_imported_beside_the_jvm_when_pyspark_is_whole_and_the_environment_has_been_read():
    """pyspark's imports are circular, so of two threads one may find half of it. numpy changes the environment."""
    environment = {name: value for name, value in os.environ.items() if name not in (PYTHON, "TIDEGATE_VERBOSE")}
    done = subprocess.run(
        [sys.executable, "-c", _BESIDE_THE_JVM],
        capture_output=True,
        text=True,
        env={**environment, "SPARK_HOME": "/nowhere"},
        check=False,
    )
    assert (done.stdout, done.returncode) == ("True True\n", 0), done.stderr
