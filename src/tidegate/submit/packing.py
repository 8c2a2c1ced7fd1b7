"""One archive with tidegate and all packages that its tasks import, for executors whose Python has none of them.

    environment.tar.gz
        bin/python     runs the machine's Python of the same version, which finds the packages first
        lib/           the packages

It is smaller than a packed virtual environment (`venv-pack`), which contains pyspark, and it also takes a tidegate that
is installed for editing. Compiled packages fit the same version of Python and the same kind of machine.
"""

from __future__ import annotations

import io
import os
import re
import sys
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath

from tidegate.core.errors import Code, TidegateError
from tidegate.extras import Extra

OF_THE_CLUSTER = frozenset({"pyspark", "py4j"})
"""A cluster of Spark has these, in the version of its own jars."""

_OWN = "tidegate"
_EXECUTABLE = 0o755
_COMPRESSION = 1  # compiled code shrinks little more at higher levels, which take many times as long
_SHELL = """\
#!/bin/sh
# The Python of this machine, with the packages beside this file. TIDEGATE_PYTHON names another one.
here=$(cd "$(dirname "$0")/.." && pwd)
PYTHONPATH="$here/lib${{PYTHONPATH:+:$PYTHONPATH}}" exec "${{TIDEGATE_PYTHON:-python{version}}}" "$@"
"""


@dataclass(frozen=True, slots=True)
class Packed:
    """A finished archive: its packages by name and version, its size in bytes."""

    file: Path
    packages: dict[str, str]
    size: int
    python: str


def pack(file: Path, more: Sequence[str]) -> Packed:
    """Write the archive, complete or not at all. `more`: packages of the program, with what they require.

    Raises OPTION_UNKNOWN if one of them is not installed here, or cannot be packed.
    """
    packages = packages_of([_OWN, *more])
    aside = file.with_name(f".{file.name}.{os.getpid()}")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    try:
        with tarfile.open(aside, "w:gz", compresslevel=_COMPRESSION) as archive:
            _add_text(archive, "bin/python", _SHELL.format(version=version))
            for each in packages:
                for path, name in _files_of(each):
                    archive.add(path, f"lib/{name}", recursive=False)
        aside.replace(file)
    finally:
        aside.unlink(missing_ok=True)
    return Packed(file, {each.name: each.version for each in packages}, file.stat().st_size, version)


def packages_of(names: Sequence[str]) -> list[Distribution]:
    """The installed packages of these names and of everything that they require, without those of the cluster.

    Of tidegate's extras those that are installed here. A requirement for another system or another version of Python is
    not installed, and so left out.
    """
    found: dict[str, Distribution] = {}
    waiting = [*names]
    while waiting:
        name = _normal(waiting.pop())
        if name in found or name in OF_THE_CLUSTER:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            if name in map(_normal, names):
                raise _unpackable(name, "not installed in this Python") from None
            continue
        waiting += _requirements(found[name])
    return [found[name] for name in sorted(found)]


def _requirements(package: Distribution) -> Iterator[str]:
    """The names that a package requires, and of tidegate's extras those that are installed."""
    if _normal(package.name) == _OWN:
        yield from (name for extra in Extra if not extra.missing for name in extra.modules)
    for text in package.requires or ():
        requirement, _, marker = text.partition(";")
        name = re.match(r"[\w.-]+", requirement.strip())
        if name is not None and not re.search(r"\bextra\b", marker):
            yield name[0]


def _files_of(package: Distribution) -> Iterator[tuple[Path, str]]:
    """Each file of a package, and its name in the archive."""
    if _normal(package.name) == _OWN:
        yield from _own_files()
    elif _is_editable(package) or package.files is None:
        raise _unpackable(package.name, "installed for editing, so its files are somewhere else")
    for each in package.files or ():
        path = Path(str(package.locate_file(each)))
        if _is_packed(each) and path.is_file():
            yield path, str(each)


def _own_files() -> Iterator[tuple[Path, str]]:
    """The files of tidegate itself, wherever it is installed."""
    folder = Path(__file__).parents[1]
    for path in sorted(folder.rglob("*")):
        if path.is_file() and _is_packed(PurePosixPath(path.relative_to(folder.parent))):
            yield path, str(path.relative_to(folder.parent))


def _is_packed(name: PurePosixPath) -> bool:
    """Neither compiled by Python, nor a command or a document outside of the packages, nor one of large test suites."""
    parts = name.parts
    return ".." not in parts and "__pycache__" not in parts and parts[1:2] != ("tests",) and name.suffix != ".pth"


def _is_editable(package: Distribution) -> bool:
    return '"editable": true' in (package.read_text("direct_url.json") or "").replace('":true', '": true')


def _add_text(archive: tarfile.TarFile, name: str, text: str) -> None:
    data = text.encode()
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), _EXECUTABLE
    archive.addfile(entry, io.BytesIO(data))


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _unpackable(name: str, found: str) -> TidegateError:
    return TidegateError(
        Code.OPTION_UNKNOWN,
        expected="packages that are installed in this Python as copies",
        found=f"{name}: {found}",
        where="tidegate pack",
        next_step=f"pip install {name}, without -e",
    )
