"""Strikes that wait in a folder: one process takes each, and every place that is passed is noted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.core.errors import TidegateError
from tidegate.disk.strike_folder import StrikeFolder, TakenBy
from tidegate.disk.strikes import Strikes


def strikes_of(folder: Path) -> Strikes:
    return Strikes({"TIDEGATE_TESTING": "1", "TIDEGATE_STRIKES": str(folder)})


def test_a_strike_that_came_later_is_taken_by_a_process_that_lives_already(tmp_path: Path) -> None:
    folder, strikes = StrikeFolder(tmp_path), strikes_of(tmp_path)
    strikes.reach("commit.before", 3)
    folder.post("1", "commit.before@4=error")
    strikes.reach("commit.before", 3)
    assert folder.taken_by("1") is None
    with pytest.raises(OSError, match=r"failpoint commit\.before"):
        strikes.reach("commit.before", 5)
    taken = folder.taken_by("1")
    assert taken
    assert (taken.place, taken.epoch) == ("commit.before", 5)


def test_of_two_processes_one_is_struck(tmp_path: Path) -> None:
    folder, first, second = StrikeFolder(tmp_path), strikes_of(tmp_path), strikes_of(tmp_path)
    folder.post("1", "task.write=error")
    with pytest.raises(OSError, match=r"failpoint task\.write"):
        first.reach("task.write", 0)
    second.reach("task.write", 0)


def test_a_lost_answer_is_a_timeout_behind_what_was_done(tmp_path: Path) -> None:
    StrikeFolder(tmp_path).post("1", "commit.after=acklost")
    with pytest.raises(TimeoutError):
        strikes_of(tmp_path).reach("commit.after", None)
    with pytest.raises(TidegateError, match=r"commit\.before=acklost"):
        StrikeFolder(tmp_path).post("2", "commit.before=acklost")


def test_a_paused_process_stands_still_until_it_is_woken(tmp_path: Path) -> None:
    """The process is watched by its parent: stopped, told to go on, ended."""
    program = (
        "import os, sys, signal\n"
        "from tidegate.disk.strikes import Strikes\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    Strikes(os.environ).reach('compute.before', 0)\n"
        "    os._exit(7)\n"
        "stopped = os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1])\n"
        "os.kill(child, signal.SIGCONT)\n"
        "sys.exit((0 if stopped else 1) + os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    folder = StrikeFolder(tmp_path)
    folder.post("1", "compute.before=pause")
    environment = {**os.environ, "TIDEGATE_TESTING": "1", "TIDEGATE_STRIKES": str(tmp_path)}
    assert subprocess.run([sys.executable, "-c", program], env=environment, check=False).returncode == 7
    assert isinstance(folder.taken_by("1"), TakenBy)


def test_what_was_passed_is_counted_once_a_process_and_only_what_is_registered(tmp_path: Path) -> None:
    first, second = strikes_of(tmp_path), strikes_of(tmp_path)
    for place in ("done.before", "done.before", "read.before"):
        first.reach(place, None)
    second.reach("done.before", 1)
    assert StrikeFolder(tmp_path).passed() == {"done.before": 2}


def test_without_the_switch_for_tests_nothing_is_taken(tmp_path: Path) -> None:
    folder = StrikeFolder(tmp_path)
    folder.post("1", "done.before=error")
    Strikes({"TIDEGATE_STRIKES": str(tmp_path)}).reach("done.before", 0)
    assert (folder.taken_by("1"), folder.passed()) == (None, {})
