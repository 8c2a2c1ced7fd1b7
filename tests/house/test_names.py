"""One word, one meaning: no two classes or type aliases of the package have the same name."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tests.house.measures import Module, modules_below
from tests.house.repository import ROOT

ALLOWED = {
    "Position": "public in `tidegate.sink_api` (of a row in Kafka) and in `tidegate.source_api` (of a source)",
    "Answer": "public in `tidegate.sink_api` (a sink's answer to a commit) and in `tidegate.operate` (to a request)",
    "Outcome": "public in `tidegate.sink_api` and in `tidegate.operate`, as part of those answers",
}
"""Names that stand twice, each with the reason."""


def test_no_name_of_a_class_stands_twice() -> None:
    twice = defined_twice(modules_below(ROOT / "src"))
    assert {name: homes for name, homes in twice.items() if name not in ALLOWED} == {}
    assert set(ALLOWED) <= set(twice), "a name that is allowed to stand twice stands once: take it off the list"


def test_classes_aliases_and_private_names_are_compared(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("class Word: ...\nclass _Own:\n    class Java: ...\nT = TypeVar('T')\nLIMIT = 1\n")
    (tmp_path / "b.py").write_text("Word: TypeAlias = int | str\nOwn = tuple[int, int]\nT = TypeVar('T')\nLIMIT = 2\n")
    (tmp_path / "c.py").write_text("def f():\n    class Java: ...\n")
    assert defined_twice(modules_below(tmp_path)) == {"Word": ["a", "b"], "Own": ["a", "b"]}


def defined_twice(modules: Iterable[Module]) -> Mapping[str, list[str]]:
    """By name, without the underscore of a private one: the modules that define it, where there are several."""
    homes: defaultdict[str, list[str]] = defaultdict(list)
    for module in modules:
        for name in _defined(module.tree):
            homes[name.lstrip("_")].append(module.name)
    return {name: found for name, found in homes.items() if len(found) > 1}


def _defined(tree: ast.Module) -> Iterator[str]:
    """Classes and type aliases of a module itself; type variables belong to their function, and stand anywhere."""
    for node in tree.body:
        match node:
            case ast.ClassDef(name=name):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias")):
                yield name
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript() | ast.BinOp()) if _is_of_a_type(name):
                yield name
            case _:
                pass


def _is_of_a_type(name: str) -> bool:
    bare = name.lstrip("_")
    return bare[:1].isupper() and not bare.isupper()
