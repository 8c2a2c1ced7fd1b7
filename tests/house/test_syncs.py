"""One module syncs: elsewhere a sync that failed would be taken for a success at the second try."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src/tidegate"
THE_ONE = SOURCE / "disk/durable.py"
OF_SQLITE = {
    SOURCE / "sinks/sqlite/disk.py": "each connection to a target, with what SQLite's own syncs mean",
    SOURCE / "sinks/sqlite/stage.py": "stages, which SQLite does not sync; `Stage.sync` does",
    SOURCE / "sinks/sqlite/constraints.py": "tries rows in the memory of a task",
    SOURCE / "sinks/sqlite/check.py": "looks; SQLite itself rolls back what a killed commit left, or says why not",
    SOURCE / "sinks/sqlite/described.py": "takes the write lock and gives it back",
}
"""SQLite syncs by itself: who may open a database, and why that is sound."""

NAMES = frozenset({"fsync", "fdatasync", "sync", "syncfs", "sync_file_range", "F_FULLFSYNC", "F_BARRIERFSYNC"})
"""What syncs, as a name of `os` or `fcntl`; and `msync` is `mmap.flush`."""


def syncs_in(tree: ast.AST) -> Iterator[int]:
    """The lines that sync behind the back of the one module."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name("os" | "fcntl" | "posix"), attr=name) if name in NAMES:
                yield node.lineno
            case ast.ImportFrom(module="os" | "fcntl" | "posix", names=names) if NAMES & {each.name for each in names}:
                yield node.lineno
            case ast.Import(names=names) if any(each.name in ("mmap", "ctypes") for each in names):
                yield node.lineno
            case ast.Call(func=ast.Name("getattr"), args=[_, ast.Constant(str() as name), *_]) if name in NAMES:
                yield node.lineno
            case ast.Attribute(attr="O_SYNC" | "O_DSYNC"):
                yield node.lineno
            case _:
                pass


def opens_a_database(tree: ast.AST) -> Iterator[int]:
    """The lines that open a SQLite database, or say how it syncs."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name("sqlite3"), attr="connect"):
                yield node.lineno
            case ast.ImportFrom(module="sqlite3", names=names) if "connect" in {each.name for each in names}:
                yield node.lineno
            case ast.Constant(str() as text) if "synchronous" in text.lower() and "asynchronous" not in text.lower():
                if text.lower().lstrip().startswith(("pragma", "synchronous=")):
                    yield node.lineno
            case _:
                pass


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def test_nothing_syncs_but_the_module_that_knows_what_a_failure_means() -> None:
    found = {
        f"{path.relative_to(SOURCE)}:{line}"
        for path in modules()
        if path != THE_ONE
        for line in syncs_in(ast.parse(path.read_text()))
        if not path.is_relative_to(SOURCE / "testing")
    }
    assert found == set()
    assert list(syncs_in(ast.parse(THE_ONE.read_text())))


def test_a_database_is_opened_only_where_its_own_syncs_are_understood() -> None:
    found = {
        path
        for path in modules()
        if not path.is_relative_to(SOURCE / "testing") and list(opens_a_database(ast.parse(path.read_text())))
    }
    assert found == set(OF_SQLITE)


@pytest.mark.parametrize(
    "program",
    [
        "import os\nos.fsync(3)",
        "from os import fdatasync",
        "sync = os.fdatasync",
        "fcntl.fcntl(3, fcntl.F_FULLFSYNC)",
        "getattr(os, 'fsync')(3)",
        "os.open('x', os.O_DSYNC)",
        "os.sync()",
    ],
)
def test_a_sync_of_one_s_own_is_found(program: str) -> None:
    assert list(syncs_in(ast.parse(program)))


def test_no_error_of_a_sync_is_an_error_of_the_operating_system() -> None:
    """So that no `except OSError` and no `suppress(OSError)` takes it for something that may be tried again."""
    from tidegate.disk.durable import SyncFailed

    assert not issubclass(SyncFailed, OSError)
