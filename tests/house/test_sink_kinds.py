"""Every kind of sink is cut in the same way: CONTRIBUTING.md, "A kind of sink", says what each file holds."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.house.measures import Module, modules_below
from tests.house.repository import ROOT

SINKS = ROOT / "src" / "tidegate" / "sinks"
KINDS = sorted(file.parent.name for file in SINKS.glob("*/sink.py"))
PARTS = {
    "sink": "Sink",
    "declared": "Declared",
    "described": "Target",
    "check": "violations_of",
    "transaction": "Transaction",
    "committer": "Committer",
}
"""By file, part of the name of what it defines."""


def test_the_kinds_are_those_that_are_shipped() -> None:
    assert KINDS == ["delta", "files", "iceberg", "kafka", "mysql", "postgres", "redis", "sqlite", "upsert"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", PARTS)
def test_a_kind_has_each_part_in_the_file_of_its_name(kind: str, part: str) -> None:
    (module,) = [each for each in modules_below(SINKS, kind) if each.name == f"{kind}.{part}"]
    assert [name for name in _defined(module) if PARTS[part] in name]


def test_the_parts_are_told() -> None:
    told = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert [part for part in PARTS if f"`{part}.py`" not in told] == []


def _defined(module: Module) -> Iterator[str]:
    for node in module.tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name
