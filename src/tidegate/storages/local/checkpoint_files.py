"""`CheckpointFiles` on a local disk: kept by hard links, synced one by one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from io import FileIO
from pathlib import Path

from tidegate.disk.blocks import Readable, copy_measured
from tidegate.disk.durable import Trust
from tidegate.disk.walking import files_below
from tidegate.storages.checkpoint_files import (
    CheckpointFile,
    CheckpointFiles,
    Measured,
    copy_by_reading,
    is_of_a_dead_engine,
    is_temporary,
)
from tidegate.storages.local.checkpoint_sync import CheckpointSync


class LocalCheckpointFiles:
    """The files below a folder."""

    def __init__(self, root: str | Path) -> None:
        self._root = Path(root).absolute()
        self._sync = CheckpointSync(self._root)

    def where(self, name: str = "") -> str:
        return str(self._root / name)

    def list(self, folder: str = "") -> list[CheckpointFile]:
        path = self._root / folder
        with Trust().over(path, "list the files of a checkpoint"):
            if not path.exists():
                return []
            found = [below / name for below, names in files_below(path) for name in names if not is_temporary(name)]
            seen = [each for file in found if (each := self._seen(file)) is not None]
        return sorted(seen, key=lambda each: each.name)

    def unfinished(self) -> list[str]:
        with Trust().over(self._root, "list the files of a checkpoint"):
            found = files_below(self._root) if self._root.exists() else ()
            left = [below / name for below, names in found for name in names if is_of_a_dead_engine(name)]
        return sorted(file.relative_to(self._root).as_posix() for file in left)

    def _seen(self, file: Path) -> CheckpointFile | None:
        try:
            status = file.lstat()
        except FileNotFoundError:
            return None
        return CheckpointFile(file.relative_to(self._root).as_posix(), status.st_size, status.st_mtime)

    def open(self, name: str) -> FileIO | None:
        path = self._root / name
        with Trust().over(path, "read a file of a checkpoint"):
            try:
                return FileIO(path)
            except FileNotFoundError:
                return None

    def write(self, name: str, data: bytes) -> None:
        path = self._root / name
        with Trust().over(path, "write a file of a checkpoint"):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                file.write(data)

    def hold(self, name: str, into: str) -> bool:
        target = Path(into) / name
        with Trust().over(target, "hold a file of a checkpoint by a link"):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(self._root / name, target)
            except FileNotFoundError:
                return False
        return True

    def copy(self, name: str, to: CheckpointFiles, passed: Callable[[int], object]) -> Measured | None:
        return copy_by_reading(self, name, to, passed)

    def create(self, name: str, source: Readable, passed: Callable[[int], object]) -> Measured:
        path = self._root / name
        with Trust().over(path, "copy a file of a checkpoint"):
            path.parent.mkdir(parents=True, exist_ok=True)
            return Measured(*copy_measured(source, path, passed))

    def delete(self, name: str) -> None:
        path = self._root / name
        with Trust().over(path, "remove a file of a checkpoint"):
            path.unlink(missing_ok=True)

    def clear(self, folder: str) -> None:
        path = self._root / folder
        with Trust().over(path, "clear a folder of a checkpoint"), suppress(FileNotFoundError):
            shutil.rmtree(path)

    def sync(self) -> list[str]:
        return [path.relative_to(self._root).as_posix() for path in self._sync.sync()]
