"""A real job is killed in an epoch and finishes in a second start: the places of the kills, and its input."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.support.driver import Driver

FILES, EACH = 4, 60
"""Files of numbers, each of which is an epoch, and the numbers in a file."""

KILL_POINTS = [
    pytest.param("task.write@1", id="half written"),
    pytest.param("task.prepared@1", id="in a task"),
    pytest.param("prepared.after@1", id="prepared"),
    pytest.param("decision.before@1", id="not decided"),
    pytest.param("decision.after@1", id="decided"),
    pytest.param("commit.before@2", id="not committed"),
    pytest.param("commit.after@2", id="committed"),
    pytest.param("done.before@2", id="not done"),
    pytest.param("finished.before@2", id="not finished"),
    pytest.param("gc.clean.before@2", id="not cleaned"),
]
"""An epoch passes these failpoints, in this order."""


def write_numbers(folder: Path, files: Sequence[int] = range(FILES)) -> None:
    """The input: rising numbers from 0 on, below `folder/in`."""
    (folder / "in").mkdir(exist_ok=True)
    for file in files:
        lines = [json.dumps({"number": number}) for number in range(file * EACH, (file + 1) * EACH)]
        (folder / "in" / f"{file}.json").write_text("\n".join(lines) + "\n")


def killed_at(folder: Path, point: str, start: Callable[[str], Driver]) -> None:
    """`start(failpoints)` starts a driver, which is killed at `point`."""
    hold = folder / "hold"
    with start(f"{point}=hold:{hold}") as driver:
        driver.wait_for_hold(hold)
        driver.kill_all()


def run_to_the_end(start: Callable[[str], Driver]) -> None:
    with start("") as driver:
        assert driver.wait() == 0, driver.tail()


def shown_passwords(folder: Path, password: str) -> list[str]:
    """The files of the job with the password in them."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return [path.name for path in files if password.encode() in path.read_bytes()]
