"""A program may have the name of one of Python's own modules."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.jobs.under_run import NUMBERS, table, write
from tests.support.driver import PYTHON_PATH
from tests.support.today import turn


@turn(3, of=4)
@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 always looks in the working folder")
def test_a_program_that_is_called_as_a_module_of_python_runs_from_its_own_folder(tmp_path: Path):
    """`decimal` imports `numbers`, and so do pandas and the libraries of the supervisor."""
    write(tmp_path, 0, 3)
    (tmp_path / "numbers.py").write_text(NUMBERS.read_text())
    run = subprocess.run(
        [Path(sys.executable).with_name("tidegate"), "run", "numbers.py", str(tmp_path), "caught-up"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": PYTHON_PATH},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert table(tmp_path) == [0, 1, 2]
