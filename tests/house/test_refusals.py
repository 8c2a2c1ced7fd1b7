"""The text of an error is written once: places that raise the same error share a function in a module `refusals`."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src/tidegate"
SHORT = 16
"""Pieces of text below this length are common words, not a text of their own."""


def pieces(tree: ast.AST) -> Iterator[tuple[str, str, int]]:
    """Of each call that names a code: the code, each piece of text in the call, and its line."""
    for call in (each for each in ast.walk(tree) if isinstance(each, ast.Call)):
        for code in (name for name in map(ast.unparse, call.args) if name.startswith("Code.")):
            for node in ast.walk(call):
                match node:
                    case ast.Constant(value=str() as text) if len(text.strip(" ,;:.")) >= SHORT:
                        yield code, text.strip(" ,;:."), call.lineno
                    case _:
                        pass


def test_no_error_is_worded_at_two_places() -> None:
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for path in sorted(SOURCE.rglob("*.py")):
        for code, text, line in pieces(ast.parse(path.read_text())):
            found[code, text].add(f"{path.relative_to(SOURCE)}:{line}")
    twice = {f"{code} {text!r}": sorted(places) for (code, text), places in found.items() if len(places) > 1}
    assert twice == {}


def test_a_text_that_two_calls_share_is_found() -> None:
    program = """
raise TidegateError(Code.JOB_UNKNOWN, expected="a job", found=f"none in {folder}, where it was searched")
raise self._error(Code.JOB_UNKNOWN, "a job", "none here, where it was searched")
"""
    assert list(pieces(ast.parse(program))) == [
        ("Code.JOB_UNKNOWN", "where it was searched", 2),
        ("Code.JOB_UNKNOWN", "none here, where it was searched", 3),
    ]
