"""The samples of the days: each case of each test comes on some day."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.today import sampled

ROOT = Path(__file__).parents[1]
CASES = [pytest.param(number, id=str(number)) for number in range(4)]


@pytest.mark.parametrize(("count", "every", "on"), [(1, 1, 0), (3, 1, 0), (1, 4, 0), (1, 4, 3), (2, 6, 5)])
def test_each_case_comes_on_some_day(monkeypatch: pytest.MonkeyPatch, count: int, every: int, on: int) -> None:
    seen: set[object] = set()
    for day in range(every * len(CASES)):
        monkeypatch.setenv("TIDEGATE_SEED", str(day))
        chosen = [case.values[0] for case in sampled(CASES, count, every=every, on=on) if not case.marks]
        assert len(chosen) == (count if day % every == on else 0)
        seen.update(chosen)
    assert seen == {0, 1, 2, 3}


def test_no_test_has_a_turn_and_a_sample() -> None:
    """Both count the same days: a test of every fourth day would always meet the same ones of four cases."""
    assert list(_with_both()) == []


def _with_both() -> Iterator[str]:
    for path in sorted(ROOT.rglob("test_*.py")):
        program = ast.parse(path.read_text())
        samples = {ast.unparse(name) for node in program.body for name in _names_of_sample(node)}
        for node in ast.walk(program):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                marks = [each for mark in node.decorator_list for each in ast.walk(mark)]
                if any(_calls(each, "turn") for each in marks) and any(
                    _calls(each, "sampled") or (isinstance(each, ast.Name) and each.id in samples) for each in marks
                ):
                    yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"


def _names_of_sample(node: ast.stmt) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) and _calls(node.value, "sampled") else []


def _calls(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == name
