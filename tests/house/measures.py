"""How the code stands, in numbers: `python -m tests.house.measures [FOLDER]`, for this tree or another checkout.

Lines of what is installed, files over 400 lines, the largest classes, circles of imports between files, and parameters
that are a bool. Nothing of the tree is imported or run. `python -m tests.house.measures visits` runs a job on Spark:
see `visits`.
"""

from __future__ import annotations

import ast
import sys
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.house import visits
from tests.house.repository import ROOT

LONG_FILE = 400
LONG_CLASS = 250


@dataclass(frozen=True, slots=True)
class Module:
    """One file of the package: its name, its lines and its syntax."""

    name: str
    file: Path
    lines: int
    tree: ast.Module


@dataclass(frozen=True, slots=True)
class Measures:
    """What is counted. Circles are sets of files that import each other, directly or on a way around."""

    files: int
    lines: int
    long_files: tuple[tuple[str, int], ...]
    long_classes: tuple[tuple[str, int], ...]
    circles: tuple[tuple[str, ...], ...]
    bool_parameters: int


def measured(root: Path) -> Measures:
    modules = list(modules_below(root / "src"))
    classes = [
        (f"{each.name}.{node.name}", (node.end_lineno or node.lineno) - node.lineno + 1)
        for each in modules
        for node in ast.walk(each.tree)
        if isinstance(node, ast.ClassDef)
    ]
    return Measures(
        files=len(modules),
        lines=sum(each.lines for each in modules),
        long_files=_longest(((each.name, each.lines) for each in modules), LONG_FILE),
        long_classes=_longest(classes, LONG_CLASS),
        circles=tuple(circles_of(imports_of(modules))),
        bool_parameters=sum(_bools(node) for each in modules for node in ast.walk(each.tree)),
    )


def modules_below(folder: Path, only: str = "") -> Iterator[Module]:
    """Every Python file below `folder`, or below one folder in it, by the name that an import has for it."""
    for file in sorted((folder / only).rglob("*.py")):
        parts = file.relative_to(folder).with_suffix("").parts
        text = file.read_text(encoding="utf-8")
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        yield Module(name, file, len(text.splitlines()), ast.parse(text))


def imports_of(modules: Collection[Module]) -> Mapping[str, set[str]]:
    """By module, the modules that it imports: anywhere in the file, also for types alone."""
    names = {each.name for each in modules}
    found: dict[str, set[str]] = {}
    for each in modules:
        imported: set[str] = set()
        for node in ast.walk(each.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                below = [f"{node.module}.{alias.name}" for alias in node.names]
                imported |= {each if each in names else node.module for each in below}
            elif isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
        found[each.name] = (imported & names) - {each.name}
    return found


def circles_of(arrows: Mapping[str, set[str]]) -> list[tuple[str, ...]]:
    """Sets of files each of which reaches all the others."""
    reached = {name: set(outward(arrows[name], arrows)) for name in arrows}
    circles = {frozenset(other for other in reached[name] if name in reached[other]) for name in arrows}
    return sorted(tuple(sorted(each)) for each in circles if each)


def outward(begin: Collection[str], arrows: Mapping[str, Collection[str]]) -> Iterator[str]:
    """Everything that the arrows lead to, `begin` included, the nearest first."""
    seen, waiting = set(begin), deque(sorted(begin))
    while waiting:
        name = waiting.popleft()
        yield name
        new = sorted(set(arrows[name]) - seen)
        seen.update(new)
        waiting.extend(new)


def _longest(found: Iterator[tuple[str, int]] | list[tuple[str, int]], above: int) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(((name, lines) for name, lines in found if lines > above), key=lambda each: -each[1]))


def _bools(node: ast.AST) -> int:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return 0
    given = node.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    return sum(each.annotation is not None and ast.unparse(each.annotation) == "bool" for each in every)


def main(arguments: list[str]) -> int:
    if arguments == ["visits"]:
        visits.show()
    found = measured(Path(arguments[0]) if arguments else ROOT)
    table = Table("measure", "value", title="src")
    table.add_row("files", str(found.files))
    table.add_row("lines", str(found.lines))
    table.add_row(f"files over {LONG_FILE} lines", f"{len(found.long_files)}")
    table.add_row(f"classes over {LONG_CLASS} lines", f"{len(found.long_classes)}")
    table.add_row("circles of files", str(len(found.circles)))
    table.add_row("parameters that are a bool", str(found.bool_parameters))
    console = Console(width=160)
    console.print(table)
    for title, rows in (("file", found.long_files), ("class", found.long_classes)):
        for name, lines in rows:
            console.print(f"{title} {name}: {lines} lines", highlight=False)
    for circle in found.circles:
        console.print(f"circle: {', '.join(circle)}", highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
