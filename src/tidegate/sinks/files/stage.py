"""Where the tasks of a file sink keep their files until they are published: the interface, and the stage on a disk."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tidegate.core.records import Attempt
from tidegate.sinks.files.hive_folders import PATH_BYTES_AT_MOST
from tidegate.sinks.staging import StagedFiles
from tidegate.storages.target_files import NameLimits

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Buffer


class NewStagedFile(Protocol):
    """A staged file that is written from its begin to its end. `token`: a part of its name; "" if it needs none."""

    token: str

    def write(self, data: Buffer, /) -> int:
        """Append all of `data`."""
        ...

    def close(self) -> None: ...

    def abandon(self) -> None:
        """Close the file and remove it, also after `close`."""
        ...


class FileStage(Protocol):
    """The staged files of a sink, in a task."""

    @property
    def limits(self) -> NameLimits: ...

    @property
    def file_bytes_at_most(self) -> int | None:
        """The size after which another file begins; None where files may grow without an end."""
        ...

    @property
    def open_at_most(self) -> int:
        """Open files of one attempt."""
        ...

    def create(self, attempt: Attempt, number: int) -> NewStagedFile:
        """The file of this number of an attempt; one that an earlier begin of the attempt has left does not count."""
        ...

    def sync(self, attempt: Attempt, files: int) -> None:
        """Make the first so many files of the attempt durable, with their names. All of them are closed."""
        ...


@dataclass(frozen=True, slots=True)
class LocalStage:
    """The stage on a disk. Its root is directly below the target."""

    files: StagedFiles
    limits: NameLimits
    file_bytes_at_most: int | None = None
    open_at_most: int = 64

    @classmethod
    def of(cls, files: StagedFiles) -> LocalStage:
        """The stage of these files."""
        return cls(files, limits_below(files.root.parent))

    def create(self, attempt: Attempt, number: int) -> NewLocalFile:
        path = self.files.file(attempt, number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        return NewLocalFile(path)

    def sync(self, attempt: Attempt, files: int) -> None:
        self.files.sync(attempt, files)


class NewLocalFile:
    """A new file on a disk."""

    token = ""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("xb", buffering=0)

    def write(self, data: Buffer, /) -> int:
        content = memoryview(data).cast("B")
        while content:
            content = content[self._file.write(content) :]
        return memoryview(data).nbytes

    def close(self) -> None:
        self._file.close()

    def abandon(self) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)


def limits_below(target: Path) -> NameLimits:
    """How long names below this folder of a disk may be."""
    return NameLimits(len(os.fsencode(target)), PATH_BYTES_AT_MOST)
