"""A small file system of a test's own, where this machine lets a test mount one.

with SmallDisk(tmp_path / "disk", megabytes=2) as disk:
    disk.fill()
    ...  # no space is left below `disk.folder`
    disk.empty()
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import TracebackType

import pytest


class SmallDisk:
    """In memory, mounted as long as it is open as a context manager."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        self.folder = folder
        self._filler = folder / "filler"
        self._megabytes = megabytes

    def __enter__(self) -> SmallDisk:
        self.folder.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={self._megabytes}m", "tmpfs", str(self.folder)]
        try:
            refused = subprocess.run(mount, check=False).returncode != 0
        except FileNotFoundError:
            refused = True
        if refused:
            pytest.skip("no right to mount a file system")
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        subprocess.run(["umount", "--lazy", str(self.folder)], check=True)

    def read_only(self, *, on: bool) -> None:
        subprocess.run(["mount", "-o", f"remount,{'ro' if on else 'rw'}", str(self.folder)], check=True)

    def fill(self) -> None:
        """Take all the space that is left."""
        with self._filler.open("ab", buffering=0) as file:
            for size in (65536, 4096):
                try:
                    while file.write(b"x" * size) == size:
                        pass
                except OSError:
                    continue

    def empty(self) -> None:
        """Give back what `fill` has taken."""
        self._filler.unlink(missing_ok=True)
