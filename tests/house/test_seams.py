"""What is behind a port is made in one place: everything else takes it from the factory."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src/tidegate"

MADE_IN = {
    "HdfsCheckpointFiles": "storages/checkpoints.py",
    "HdfsJournal": "storages/journals.py",
    "HdfsStorage": "storages/opening.py",
    "LocalCheckpointFiles": "storages/checkpoints.py",
    "LocalJournal": "storages/journals.py",
    "LocalLease": "storages/leases.py",
    "LocalStorage": "storages/opening.py",
    "S3CheckpointFiles": "storages/checkpoints.py",
    "S3Journal": "storages/journals.py",
    "S3Storage": "storages/opening.py",
}
"""The class behind a port, and the one file that constructs it; the class itself may, too."""


@cache
def parsed() -> dict[str, ast.Module]:
    """Each file of the package, by its path in it."""
    return {str(path.relative_to(SOURCE)): ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}


def constructions(tree: ast.AST, name: str) -> Iterator[int]:
    """The lines that call the class, by whatever path it was imported."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called)) if called == name:
                yield node.lineno
            case _:
                pass


def defines(tree: ast.AST, name: str) -> bool:
    return any(isinstance(node, ast.ClassDef) and node.name == name for node in ast.walk(tree))


@pytest.mark.parametrize(("name", "place"), MADE_IN.items())
def test_only_the_factory_constructs_what_is_behind_a_port(name: str, place: str) -> None:
    found = {path for path, tree in parsed().items() if list(constructions(tree, name)) and not defines(tree, name)}
    assert found == {place}


def test_a_construction_is_found() -> None:
    program = "storage = LocalStorage(folder)\nother = module.LocalStorage(folder).read('x')\nof: LocalStorage"
    assert list(constructions(ast.parse(program), "LocalStorage")) == [1, 2]


def test_nothing_outside_the_storages_knows_one_of_them() -> None:
    """What is beside the ports in a folder of a scheme is that storage's own: a caller would work on it alone."""
    folders = {path.name for path in (SOURCE / "storages").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert "local" in folders
    found = {
        f"{path}: {module}"
        for path, tree in parsed().items()
        if not path.startswith("storages/")
        for module in imported(tree)
        if module.startswith("tidegate.storages.") and module.split(".")[2] in folders
    }
    assert found == set()


def imported(tree: ast.AST) -> Iterator[str]:
    """The modules that are imported, as they are named."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names)
            case ast.ImportFrom(module=str() as module, names=names):
                yield from (f"{module}.{each.name}" for each in names)
            case _:
                pass


def test_no_port_knows_a_path_of_the_disk() -> None:
    ports = [path for path in (SOURCE / "storages").glob("*.py") if "(Protocol)" in path.read_text()]
    assert ports
    for path in ports:
        assert "pathlib" not in path.read_text(), path


PARSERS = ("json.decode(", "json.loads(", "json.load(", "msgspec.DecodeError", "ValidationError", "MsgspecError")
NOT_FROM_OUTSIDE = {
    "spark/plan_tree.py",  # a plan of the JVM of this process
    "spark/state/empty.py",  # a schema of the JVM of this process
    "testing/source_contract.py",  # what was just written, as an author's tools read it
    "testing/source_readings.py",  # the same
}


def test_json_is_parsed_in_one_place() -> None:
    """A reader of its own catches fewer of the errors that spoilt bytes raise, and tells them in other words."""
    texts = {str(path.relative_to(SOURCE)): path.read_text() for path in sorted(SOURCE.rglob("*.py"))}
    found = {name for name, text in texts.items() if any(each in text for each in PARSERS)}
    assert found == {"core/json_formats.py"} | NOT_FROM_OUTSIDE
