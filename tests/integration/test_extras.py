"""The base installation: all but Kafka works without Kafka's clients, and what needs them says what to install."""

from __future__ import annotations

import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tidegate
from tests.house.repository import ROOT
from tests.support.today import turn
from tidegate.extras import ALL, Extra
from tidegate.operate.guarantees import read_guarantees
from tidegate.settings.found import read_settings_file
from tidegate.settings.given import CONFIG_VARIABLE
from tidegate.storages.opening import open_storage

BLOCKS = f"""
from importlib.machinery import PathFinder
found = PathFinder.find_spec
def find_spec(name, path=None, target=None):
    if name.partition(".")[0] not in {[module for extra in Extra for module in extra.modules.values()]}:
        return found(name, path, target)
PathFinder.find_spec = find_spec
"""
"""A `sitecustomize` of a Python that has no extra: also for Spark's workers, which inherit the path."""

PIPELINE = """
import sqlite3, sys
from pathlib import Path
from tidegate import FileSink, FileSource, Job, SQLiteSink
Path("in").mkdir()
Path("in/0.txt").write_text("sea\\nsun\\n")
job = Job("base", parallelism=1)
rows = job.source("lines", FileSource("in", format="text"))
sinks = [SQLiteSink("table", "out.db", table="t"), FileSink("files", "out", format="text")]
job.query("copy", rows, sinks=sinks)
job.run(until="caught-up")
assert sqlite3.connect("out.db").execute("SELECT value FROM t ORDER BY value").fetchall() == [("sea",), ("sun",)]
assert "".join(each.read_text() for each in Path("out").glob("*.txt")) == "sea\\nsun\\n"
assert "confluent_kafka" not in sys.modules
"""

USES = {
    "source": "from tidegate import KafkaSource",
    "sink": "from tidegate import KafkaSink",
    "broker": "from tidegate.testing.kafka import Broker; Broker.start('broker')",
    "command": "import sys; sys.argv[1:] = ['demo', '--kafka', '--json']; from tidegate.cli.main import app; app()",
}


def without_extras(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    (folder / "base").mkdir()
    (folder / "base" / "sitecustomize.py").write_text(BLOCKS)
    path = os.pathsep.join([str(folder / "base"), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@turn(2, of=4)
def test_files_and_sqlite_work_in_the_base_installation(tmp_path: Path) -> None:
    done = without_extras(tmp_path, PIPELINE)
    assert done.returncode == 0, done.stderr
    given = read_guarantees(open_storage(tmp_path / ".tidegate" / "base"))
    assert [(each.sink, each.level.value) for each in given] == [("table", "exactly-once"), ("files", "exactly-once")]


@pytest.mark.parametrize("use", USES)
def test_what_needs_kafka_names_the_one_command_that_installs_it(use: str, tmp_path: Path) -> None:
    done = without_extras(tmp_path, USES[use])
    assert done.returncode == 1
    assert "TG-EXTRA-MISSING" in done.stderr
    assert "next:     pip install 'tidegate[kafka]'" in done.stderr
    assert "confluent-kafka, kafka-python not installed" in done.stderr


def test_check_lists_what_is_not_installed_as_no_failure(tmp_path: Path) -> None:
    check = "import sys; sys.argv[1:] = ['check']; from tidegate.cli.main import app; app()"
    done = without_extras(tmp_path, check)
    assert re.search(
        r"^OK +extra kafka: not installed; .*\n +next: pip install 'tidegate\[kafka\]'$", done.stdout, re.MULTILINE
    )
    assert done.returncode == 0


def test_every_module_loads_without_extras_or_says_which_one_it_needs(tmp_path: Path) -> None:
    """Those of `testing` that speak to a broker are loaded behind the question."""
    found = [each.name for each in pkgutil.walk_packages(tidegate.__path__, "tidegate.")]
    modules = [name for name in found if "__main__" not in name and not name.startswith("tidegate.testing.")]
    program = f"""
from importlib import import_module
from tidegate import TidegateError
for module in {modules}:
    try:
        import_module(module)
    except TidegateError as error:
        assert error.code == "TG-EXTRA-MISSING", error
"""
    done = without_extras(tmp_path, program)
    assert done.returncode == 0, done.stderr


def test_the_table_of_extras_is_that_of_the_package() -> None:
    file = read_settings_file({CONFIG_VARIABLE: str(ROOT / "pyproject.toml")})
    assert file
    project: Any = file.tables["project"]
    declared = project["optional-dependencies"]
    assert declared.pop(ALL) == [f"tidegate[{','.join(extra.label for extra in Extra)}]"]
    assert {name: list(map(package, needs)) for name, needs in declared.items()} == {
        extra.label: list(extra.modules) for extra in Extra
    }
    base = set(map(package, project["dependencies"]))
    assert base.isdisjoint(needed for extra in Extra for needed in extra.modules)


def package(requirement: str) -> str:
    return re.split(r"[<>=;\[]", requirement)[0].strip()
