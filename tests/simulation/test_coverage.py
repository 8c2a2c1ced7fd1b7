"""The world alone executes every line of the protocol."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tidegate
from tests.support.driver import PYTHON_PATH

CORE = Path(tidegate.__file__).parent / "core"
EXECUTED = (
    *("effects", "epoch", "epoch_time", "errors", "finish", "finish_steadily", "happenings", "ledger"),
    *("recover", "recovery_plan", "spark_log", "states"),
    *("digests", "records/encoding", "records/job", "records/query", "records/transactions", "records/value"),
)
ELSEWHERE = {
    *("raise_all", "read_start", "weakest", "is_newest", "position_of", "positions_of", "_away"),
    *("markdown_table", "markdown", "_row", "__str__", "_tell_dead_letters", "_by_key", "finish_decided"),
    *("sealed", "list_name", "named_list", "start_missing", "begin_run", "_fence_earlier_runs", "tell_shown_again"),
}
"""Of the start, of error texts and of the documents. Dead letters are told in `tests/integration/test_dead_letters.py`.
Positions by source are read where a savepoint or a channel is. The order of positions of each kind is in
`tests/unit/test_spark_log.py`. What the tables refuse is in
`tests/unit/test_states.py`, what takes a hundred thousand seeds to come up in `tests/unit/test_finish_race.py`. What
an operator asks for beside the protocol dies before and after every effect in `tests/unit/test_settle.py`. Seals are in
the simulation, and in `tests/unit/test_seal.py`. The source of the world is Spark's; the names of tidegate's own lists
are in `tests/unit/test_recover_plan.py`. Its sinks have evidence, and show nothing inside an epoch: the others are in
`tests/unit/test_shown_again.py` and `tests/unit/test_begin_run.py`."""
ELSEWHERE_RAISED = ("IllegalTransition", "_away", "sealed(", "by another run")
SMALL_WORLD = "tests.world"
SIMULATION = "tests.simulator"
PARTS = (
    (SMALL_WORLD, "--family", "hostile"),
    (SMALL_WORLD, "--family", "single", "--configuration", "windowed-sk", "--stride", "41"),
    (SMALL_WORLD, "--family", "single", "--configuration", "purged-sk-remote", "--stride", "101"),
    (SMALL_WORLD, "--family", "stall", "--configuration", "stateful-sf-remote", "--stride", "151"),
    (SMALL_WORLD, "--family", "redo", "--configuration", "short-stateful-remote", "--stride", "61"),
    # A driver that stands still at the put of a decision until its successor has finished and cleaned up that epoch.
    (SMALL_WORLD, "--family", "stall", "--configuration", "purged-sk-remote", "--stride", "257"),
    # An epoch that is cut off twice, and by a driver that dies before it has removed what it has kept of the tries.
    (SMALL_WORLD, "--family", "single", "--configuration", "slow-sk", "--stride", "41"),
    # A power loss that leaves an epoch's offsets and tears what they name in a file source's own log.
    (SIMULATION, "--first", "52", "--seeds", "1"),
    (SIMULATION, "--first", "220", "--seeds", "100"),
)


@pytest.fixture(scope="module")
def missing(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[int]]:
    """The lines of each file of `core` that the world did not reach."""
    folder = tmp_path_factory.mktemp("coverage")
    (folder / "rc").write_text("[run]\nparallel = true\n")
    for module, *part in PARTS:
        coverage(folder, "run", f"--source={CORE}", "-m", module, "--processes", "1", *part)
    coverage(folder, "combine", "--quiet")
    coverage(folder, "json", "--quiet", "-o", "report.json")
    report = json.loads((folder / "report.json").read_text())
    return {
        Path(name).relative_to(CORE).with_suffix("").as_posix(): file["missing_lines"]
        for name, file in report["files"].items()
    }


@pytest.mark.parametrize("module", EXECUTED)
def test_every_line_is_executed(module: str, missing: dict[str, list[int]]) -> None:
    allowed = lines_elsewhere(CORE / f"{module}.py")
    assert [line for line in missing[module] if line not in allowed] == []


def test_every_name_that_is_executed_elsewhere_is_still_a_function_of_the_core() -> None:
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in CORE.rglob("*.py")]
    functions = {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    assert ELSEWHERE - functions == set()


def coverage(folder: Path, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "coverage", arguments[0], "--rcfile=rc", *arguments[1:]],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": PYTHON_PATH},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def lines_elsewhere(file: Path) -> set[int]:
    """The lines of the functions that are not the protocol's, and of the faults of its own tables."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and is_elsewhere(node):
            found |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return found


def is_elsewhere(node: ast.stmt) -> bool:
    match node:
        case ast.FunctionDef(name=name):
            return name in ELSEWHERE
        case ast.For(iter=over):
            return ast.unparse(over) == "self.violations"
        case ast.Raise():
            return any(name in ast.unparse(node) for name in ELSEWHERE_RAISED)
        case _:
            return False
