"""What the commands that only look must not load: each of these costs more than all they do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.jobs.folders import make_job, say
from tidegate.operate.beat import JobState

HEAVY = frozenset(
    {
        "asyncio", "confluent_kafka", "email", "fsspec", "hypothesis", "kafka", "http", "importlib.metadata", "logging",
        "numpy", "pandas", "py4j", "pyarrow", "pydantic", "pyspark", "sqlite3", "ssl", "urllib.request",
    }
)  # fmt: skip
OF_TIDEGATE = frozenset(
    {
        "tidegate.settings.config", "tidegate.core.effects", "tidegate.logs.writing", "tidegate.supervise.supervisor",
        "tidegate.kafka", "tidegate.sinks", "tidegate.testing", "tidegate.spark",
    }
)  # fmt: skip
_PROGRAM = """
import atexit, sys
atexit.register(lambda: print("LOADED", *sys.modules, file=sys.stderr))
from tidegate.cli.main import app
app()
"""

LIGHT = HEAVY | OF_TIDEGATE | {"rich"}
CLIENTS = frozenset({"confluent_kafka", "kafka", "numpy", "pandas", "py4j", "pyarrow", "pyspark", "tidegate.spark"})
"""What reaches other systems: for who has found something there to ask."""
DRAWING = frozenset({"logging", "rich"})
"""What draws a help loads these."""

CASES = {
    "list --json": LIGHT,
    "list -a": LIGHT,
    "info job --json": LIGHT,
    "info job": LIGHT,
    "history job": LIGHT,
    "config show": HEAVY | {"tidegate.kafka", "tidegate.sinks", "tidegate.spark", "rich"},
    "txn ls": HEAVY | {"rich", "tidegate.kafka", "tidegate.spark", "tidegate.testing"},
    "txn ls job --json": HEAVY | {"rich", "tidegate.kafka", "tidegate.spark", "tidegate.testing"},
    "savepoint ls .": CLIENTS | {"rich", "sqlite3", "tidegate.kafka", "tidegate.testing"},
    "stop job": CLIENTS | {"rich", "sqlite3", "tidegate.kafka", "tidegate.testing"},
    "run nothing.py": CLIENTS | {"rich", "sqlite3", "tidegate.kafka", "tidegate.sinks", "tidegate.testing"},
    "broker status": CLIENTS | {"rich"},
    "--help": LIGHT - DRAWING,
    "--version": CLIENTS | {"rich"},
    "list --help": LIGHT - DRAWING,
    "stop --help": LIGHT - DRAWING - {"tidegate.settings.config"},
}
LOOK_AT_JOBS = frozenset({"list", "list -a", "info job", "history job", "txn ls", "txn ls job", "stop job"})
ENDS_WITH = {"stop job": 4, "run nothing.py": 2, "broker status": 1}
"""What is refused, or not there, in the folder of these tests."""


@pytest.mark.parametrize("line", CASES)
def test_a_command_that_only_looks_loads_nothing_that_makes_one_wait(tmp_path: Path, line: str):
    loaded = loaded_by(tmp_path, line)
    assert sorted(CASES[line] & loaded) == []


@pytest.mark.parametrize("line", ["--help", "txn ls --help", "check --help", "run --help", "demo --help", "ui --help"])
def test_no_help_waits_for_what_commands_work_with(tmp_path: Path, line: str):
    heavy = {"confluent_kafka", "numpy", "pandas", "py4j", "pyarrow", "pydantic", "pyspark", "tidegate.spark"}
    assert sorted(heavy & loaded_by(tmp_path, line)) == []


def loaded_by(folder: Path, line: str) -> set[str]:
    """The modules that the command has loaded when it ends, in a folder with a job."""
    say(make_job(folder), JobState.FINISHED)
    where = ["--dir", str(folder)] if line.removesuffix(" --json") in LOOK_AT_JOBS else []
    command = [sys.executable, "-c", _PROGRAM, *line.split(), *where]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == ENDS_WITH.get(line, 0), done.stderr
    return set(done.stderr.partition("LOADED")[2].split())
