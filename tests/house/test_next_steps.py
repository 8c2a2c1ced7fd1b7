"""Every error says what to do next: in its raise, or by the table of its code, and no text in both."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.house.repository import ROOT, relative
from tidegate.core.errors import Code, TidegateError
from tidegate.core.next_steps import NEXT_STEPS


def raises() -> Iterator[tuple[str, ast.Call, ast.expr | None]]:
    """Where an error is made, and its `next_step=`."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == TidegateError.__name__
            ):
                given = next((each.value for each in node.keywords if each.arg == "next_step"), None)
                yield f"{relative(path)}:{node.lineno}", node, given


def label_of(call: ast.Call) -> str:
    """The label of `Code.NAME`; empty where the code is computed."""
    code = call.args[0]
    return Code[code.attr].label if isinstance(code, ast.Attribute) and code.attr in Code.__members__ else ""


def test_an_error_without_a_next_step_of_its_own_has_that_of_its_code() -> None:
    assert [where for where, call, given in raises() if given is None and label_of(call) not in NEXT_STEPS] == []


def test_no_raise_repeats_the_next_step_of_its_code() -> None:
    repeated = [
        where
        for where, call, given in raises()
        if isinstance(given, ast.Constant) and given.value == NEXT_STEPS.get(label_of(call))
    ]
    assert repeated == []


def test_the_table_knows_only_codes_that_there_are_and_are_raised_so() -> None:
    used = {label_of(call) for _, call, given in raises() if given is None}
    assert set(NEXT_STEPS) <= {code.label for code in Code}
    assert set(NEXT_STEPS) - used == set()
