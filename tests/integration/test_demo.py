"""The demo through the real command: killed for real, compared for real, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.today import sampled, turn

COMMAND = [sys.executable, "-m", "tidegate.cli.main", "demo"]


def run_demo(folder: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    """Run the demo with `folder` for temporary files; its exit code, its report, and what it told on the way."""
    done = subprocess.run(
        [*COMMAND, "--json", *arguments],
        env={**os.environ, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.stdout.count("\n") == 1, done.stderr
    assert list(folder.iterdir()) == []
    return done.returncode, json.loads(done.stdout), done.stderr


@pytest.mark.more
def test_two_kills_and_nothing_is_lost_or_repeated(tmp_path: Path) -> None:
    code, report, told = run_demo(tmp_path, "--crashes", "2", "--lines", "400", "--seed", "2")
    assert code == 0, (report, told)
    assert report["ok"]
    assert (report["records_in"], report["records_out"]) == (400, 400)
    assert (report["lost"], report["duplicated"], report["wrong_counts"], report["torn"]) == (0, 0, 0, 0)
    assert report["kills"] == sum(report["kills_by_phase"].values()) == 2
    assert 2 * 5 <= report["epochs"] <= 2 * 6, "two files are one epoch where a run died before it wrote the offsets"
    assert told.count("kill -9") == 2


@turn(0, of=4)
def test_a_poisoned_record_stands_in_the_dead_letters_and_every_count_is_exact(tmp_path: Path) -> None:
    code, report, told = run_demo(tmp_path, "--poison", "--crashes", "2", "--lines", "400", "--seed", "3")
    assert code == 0, (report, told)
    assert (report["ok"], report["records_in"], report["records_out"]) == (True, 400, 400)
    assert (report["lost"], report["duplicated"], report["wrong_counts"], report["torn"]) == (0, 0, 0, 0)
    assert (report["dead_letters"], report["kills"]) == (1, 2)
    assert told.count("kill -9") == 2


@pytest.mark.more
def test_without_the_gate_the_same_kills_repeat_rows(tmp_path: Path) -> None:
    code, report, told = run_demo(tmp_path, "--crashes", "1", "--lines", "200", "--gate", "off", "--seed", "1")
    assert code == 1, (report, told)
    assert not report["ok"]
    assert report["kills_by_phase"]["C"] == 1
    assert report["duplicated"] > 0
    assert "duplicated in" in report["counterexample"]


@pytest.mark.parametrize("end", sampled([pytest.param(signal.SIGINT), pytest.param(signal.SIGTERM)]))
def test_interrupted_it_leaves_no_process_and_no_folder(tmp_path: Path, end: signal.Signals) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    demo = subprocess.Popen([*COMMAND], env=environment, stderr=subprocess.DEVNULL)
    driver = await_java(demo.pid)
    demo.send_signal(end)
    assert demo.wait(timeout=60) == 128 + end
    assert list(tmp_path.iterdir()) == []
    await_end_of_group(driver)


class Process(NamedTuple):
    """One process of this machine, as `ps` shows it."""

    parent: int
    group: int
    state: str
    command: str

    @property
    def is_dead(self) -> bool:
        """Whether it has ended and nobody has waited for it."""
        return self.state.startswith("Z")


def processes() -> list[Process]:
    listed = subprocess.run(["ps", "-eo", "ppid=,pgid=,stat=,comm="], capture_output=True, text=True, check=True)
    rows = [line.split(maxsplit=3) for line in listed.stdout.splitlines()]
    return [Process(int(parent), int(group), state, command) for parent, group, state, command in rows]


def await_java(parent: int) -> int:
    """Wait until the driver that `parent` started has its JVM; the number of their process group."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        everything = processes()
        drivers = {process.group for process in everything if process.parent == parent}
        drivers.discard(os.getpgrp())  # a driver that has not yet left for a group of its own
        for process in everything:
            if process.group in drivers and process.command == "java":
                return process.group
        time.sleep(0.05)
    raise AssertionError("no JVM came")


def await_end_of_group(group: int) -> None:
    """Wait until nothing of a process group runs; a dead process that nobody has waited for does not count."""
    end = time.monotonic() + 30
    while True:
        alive = [process for process in processes() if process.group == group and not process.is_dead]
        if not alive:
            return
        assert time.monotonic() < end, alive
        time.sleep(0.1)
