"""What stands in a built wheel, and what may not: `python -m tests.house.wheel WHEEL` prints a summary."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path
from zipfile import ZipFile

SHIPPED_FOR_TESTS = re.compile(r"__init__|checker|demo|kafka|(\w+_)?contract(_\w+)?|memory(_\w+)?|source_readings")
"""What `tidegate.testing` holds for tests of users. All other test machinery is below `tests/`."""

_MACHINERY = re.compile(r"world|simulat|planted|campaign|conftest|(^|/)tests?(/|_)")
_IMPORTS_TESTS = re.compile(rb"^\s*(?:from|import) (?:tests|bench|hypothesis)\b", re.MULTILINE)


def strangers(wheel: Path) -> list[str]:
    """Files of a wheel that are not the package's own, or are test machinery."""
    with ZipFile(wheel) as archive:
        return [name for name in archive.namelist() if not name.endswith("/") and _is_strange(name, archive.read(name))]


def _is_strange(name: str, content: bytes) -> bool:
    if not name.startswith(("tidegate/", "tidegate-")) or _MACHINERY.search(name):
        return True
    if name.startswith("tidegate/testing/") and not SHIPPED_FOR_TESTS.fullmatch(name.split("/")[2].removesuffix(".py")):
        return True
    return name.endswith(".py") and _IMPORTS_TESTS.search(content) is not None


def summary(wheel: Path) -> str:
    """One line each: files and lines by package; the last line is the sum."""
    counted, lines, unpacked = Counter[str](), Counter[str](), 0
    with ZipFile(wheel) as archive:
        for each in archive.infolist():
            if each.is_dir():
                continue
            package = "/".join(each.filename.split("/")[:-1][:2])
            counted[package] += 1
            lines[package] += archive.read(each).count(b"\n") if each.filename.endswith(".py") else 0
            unpacked += each.file_size
    size = f"{wheel.stat().st_size / 1e6:.2f} MB, {unpacked / 1e6:.2f} MB unpacked"
    return "\n".join(
        [
            *(f"{name:<32}{counted[name]:>5} files {lines[name]:>7} lines of Python" for name in sorted(counted)),
            f"{wheel.name}: {counted.total()} files, {lines.total()} lines of Python, {size}",
        ]
    )


if __name__ == "__main__":
    print(summary(Path(sys.argv[1])))
