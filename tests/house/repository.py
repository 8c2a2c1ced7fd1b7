"""The files of the project, as the house tests see them."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def project_files(suffix: str = "") -> list[Path]:
    """Every text file that is committed or about to be, with this suffix."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = {ROOT / name for name in listed.split("\0") if name.endswith(suffix)}
    return sorted(path for path in paths if path.is_file() and is_text(path))


def is_text(path: Path) -> bool:
    return b"\0" not in path.read_bytes()


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()
