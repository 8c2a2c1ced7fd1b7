"""The world catches what it is for: each rule of the protocol, broken by one line in a copy of the package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tidegate
from tests.simulation.planted import PLANTED, PlantedBug
from tests.support.today import sampled

PACKAGE = Path(tidegate.__file__).parent


@pytest.mark.parametrize("bug", sampled([pytest.param(bug, id=bug.name) for bug in PLANTED], (len(PLANTED) + 2) // 3))
def test_a_planted_bug_is_caught(bug: PlantedBug, tmp_path: Path) -> None:
    copy = tmp_path / "tidegate"
    shutil.copytree(PACKAGE, copy)  # with its bytecode, so that only the planted file is compiled
    plant(bug, copy / "core" / bug.file)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.world", "--stop"),
            *("--family", bug.family, "--configuration", bug.configuration, "--stride", str(bug.stride)),
        ],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, f"not caught: {bug.rule}\n{done.stdout}{done.stderr}"
    assert " 1 bad" in done.stdout or "    " in done.stdout, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr


def plant(bug: PlantedBug, file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert text.count(bug.old) == 1, f"{bug.file} has these lines {text.count(bug.old)} times:\n{bug.old}"
    file.write_text(text.replace(bug.old, bug.new), encoding="utf-8")
