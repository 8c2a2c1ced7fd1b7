"""Where the files of a new savepoint are put together: on a disk, or on another storage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from tidegate.checkpoints.job_layout import MANIFEST
from tidegate.core.errors import TidegateError
from tidegate.core.records import SavedFile
from tidegate.disk.blocks import copy_measured, measured
from tidegate.disk.durable import sync_file, sync_folder
from tidegate.disk.side_by_side import side_by_side
from tidegate.disk.walking import files_below
from tidegate.savepoints.copying import Copying
from tidegate.storages.checkpoint_files import CheckpointFiles, Measured


class Building(Protocol):
    """The files of a new savepoint at their place. Their content is durable when a method returns, and their names when
    `settle` returns. All methods raise storage errors, and SAVEPOINT_CUT_OFF when the copy was canceled.
    """

    @property
    def folder(self) -> Path:
        """A folder of this machine, in which Spark writes tables under the names that they have in the savepoint."""
        ...

    def make_folders(self, names: Iterable[str]) -> None:
        """Make these folders, each after the one above it."""
        ...

    def copy(self, source: Path, names: Sequence[str]) -> list[SavedFile]:
        """Copy these files of a folder of this machine."""
        ...

    def keep(self, name: str) -> SavedFile:
        """Take a file that was written below `folder`."""
        ...

    def settle(self) -> None:
        """Make the names durable."""
        ...


class BuildingOnDisk:
    """In a folder of this machine. `one_by_one`: copies one file after the other."""

    def __init__(self, folder: Path, copying: Copying, *, one_by_one: bool) -> None:
        self.folder = folder
        self._copying = copying
        self._one_by_one = one_by_one

    def make_folders(self, names: Iterable[str]) -> None:
        for name in names:
            (self.folder / name).mkdir()

    def copy(self, source: Path, names: Sequence[str]) -> list[SavedFile]:
        def copied(name: str) -> SavedFile:
            with (source / name).open("rb", buffering=0) as read:
                size, digest = copy_measured(read, self.folder / name, self._copying.copied)
            return SavedFile(name=name, size_bytes=size, sha256=digest)

        return list(map(copied, names) if self._one_by_one else side_by_side(copied, names))

    def keep(self, name: str) -> SavedFile:
        path = self.folder / name
        size, digest = measured(path)
        with path.open("rb") as file:
            sync_file(file.fileno())
        return SavedFile(name=name, size_bytes=size, sha256=digest)

    def settle(self) -> None:
        for folder, _ in files_below(self.folder):
            sync_folder(folder)


class BuildingElsewhere:
    """On another storage. The bytes whose SHA-256 is kept are sent as they are read. `folder`, a temporary one, has
    only one table at a time. `taken`: the error if another driver of the job has taken the savepoint; it gets what was
    found.
    """

    def __init__(
        self, folder: Path, into: CheckpointFiles, copying: Copying, taken: Callable[[str], TidegateError]
    ) -> None:
        self.folder = folder
        self._into = into
        self._copying = copying
        self._taken = taken

    def make_folders(self, names: Iterable[str]) -> None:
        """Folders come with their files. What a killed savepoint has left at this place goes."""
        left = {each.name for each in self._into.list()}
        if MANIFEST in left:
            raise self._taken(f"{self._into.where(MANIFEST)}: another driver has taken it meanwhile")
        if left:
            self._into.clear("")

    def copy(self, source: Path, names: Sequence[str]) -> list[SavedFile]:
        def copied(name: str) -> SavedFile:
            with (source / name).open("rb", buffering=0) as read:
                return _saved(name, self._into.create(name, read, self._copying.copied))

        return list(side_by_side(copied, names, at_least=2))

    def keep(self, name: str) -> SavedFile:
        path = self.folder / name
        with path.open("rb", buffering=0) as read:
            came = self._into.create(name, read, lambda _: self._copying.go_on())
        path.unlink()
        return _saved(name, came)

    def settle(self) -> None:
        self._into.sync()


def _saved(name: str, came: Measured) -> SavedFile:
    return SavedFile(name=name, size_bytes=came.size_bytes, sha256=came.sha256)
