"""Keeps prepared rows of a sink on a local disk until they become visible: a tree of folders beside the target.

    <root>/<job id>/g<generation>/<query>.<sink>/e<epoch>/<attempt>[.<number>]<suffix>

The names identify the owner of a file. So a committable needs no path, and the folder can be moved. A staged file
leaves its folder in two ways only: the sink's commit moves it into the target, or the whole epoch folder is renamed
into the trash after the epoch is done. So a missing file in an existing folder is never the result of a clean-up.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from tidegate.core.records import Attempt, Committable, SinkIdentity
from tidegate.disk.durable import sync_file, sync_folder

_EPOCH_FOLDER = re.compile(r"e(\d+)")
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class StagedFiles:
    """The staged files below `root`. Each file is named after its attempt and `suffix`; further files of an attempt are
    numbered from 1 on.
    """

    root: Path
    suffix: str

    def file(self, attempt: Attempt, number: int = 0) -> Path:
        numbered = f".{number}" if number else ""
        return self.epoch(attempt.sink, attempt.epoch) / f"{attempt.name}{numbered}{self.suffix}"

    def epoch(self, identity: SinkIdentity, epoch: int) -> Path:
        return self.root / epoch_folder(identity, epoch)

    def sync(self, attempt: Attempt, files: int = 1) -> None:
        """Make the attempt's files durable: first the files, then each folder up to the parent of `root`.

        All folders are synced, also existing ones: the process that created one may have died before its sync.
        """
        for number in range(files):
            with self.file(attempt, number).open("rb") as file:
                sync_file(file.fileno())
        for folder in self.file(attempt).parents:
            sync_folder(folder)
            if folder == self.root.parent:
                return

    def clean(self, identity: SinkIdentity, finished_through: int) -> None:
        """Remove the epochs of `identity` up to `finished_through`, and the rest of an interrupted clean-up."""
        self._remove(identity, lambda epoch: epoch <= finished_through)

    def discard(self, identity: SinkIdentity, from_epoch: int) -> int:
        """Remove the epochs of `identity` from `from_epoch` on. Returns the number of attempts with staged files."""
        epochs = [epoch_of(name) for name in _names(self._folder(identity))]
        attempts = {
            (epoch, name.partition(".")[0])
            for epoch in epochs
            if epoch is not None and epoch >= from_epoch
            for name in _names(self.epoch(identity, epoch))
            if name.endswith(self.suffix)
        }
        self._remove(identity, lambda epoch: epoch >= from_epoch)
        for folder in (self._folder(identity), self._folder(identity).parent):
            with suppress(OSError):  # not empty, or removed already
                folder.rmdir()
        return len(attempts)

    def _folder(self, identity: SinkIdentity) -> Path:
        return self.root / owner_folder(identity)

    def _remove(self, identity: SinkIdentity, chosen: Callable[[int], bool]) -> None:
        folder = self._folder(identity)
        for name in _names(folder):
            epoch = epoch_of(name)
            if epoch is not None and chosen(epoch):
                with suppress(FileNotFoundError):  # another finisher has removed it
                    (folder / name).rename(folder / f"trash-{name}-{secrets.token_hex(4)}")
        for name in _names(folder):
            if name.startswith("trash-"):
                _delete(folder / name)


@dataclass(frozen=True, slots=True)
class Seal:
    """Size and checksum of a staged file. At commit they prove that it is the prepared file."""

    size_bytes: int
    checksum: str

    @classmethod
    def of(cls, file: Path) -> Seal:
        return cls(file.stat().st_size, checksum_of(file))

    @classmethod
    def carried_by(cls, committable: Committable) -> Seal:
        return cls(int(committable.handle["size_bytes"]), committable.handle["checksum"])

    def as_handle(self) -> dict[str, str]:
        return {"size_bytes": str(self.size_bytes), "checksum": self.checksum}

    def flaw_of(self, file: Path, *, checksum_up_to_bytes: int | None = None) -> str | None:
        """The difference between `file` and this proof, in words, or None. Above the size limit only sizes are
        compared.
        """
        try:
            size_bytes = file.stat().st_size
        except FileNotFoundError:
            return f"{file.name} is gone"
        if size_bytes != self.size_bytes:
            return f"{file.name} has {size_bytes} bytes instead of {self.size_bytes}"
        if checksum_up_to_bytes is not None and size_bytes > checksum_up_to_bytes:
            return None
        if checksum_of(file) != self.checksum:
            return f"{file.name} has another checksum"
        return None


def owner_folder(identity: SinkIdentity) -> str:
    """The folder of a sink's staged files, below their root."""
    owner = f"{file_name(identity.query)}.{file_name(identity.sink)}"
    return f"{file_name(identity.job_id)}/g{identity.generation}/{owner}"


def epoch_folder(identity: SinkIdentity, epoch: int) -> str:
    """The folder of the staged files of one epoch, below their root."""
    return f"{owner_folder(identity)}/e{epoch}"


def epoch_of(folder: str) -> int | None:
    """The epoch whose staged files stand in a folder of this name; None for any other folder."""
    found = _EPOCH_FOLDER.fullmatch(folder)
    return None if found is None else int(found[1])


def file_name(uid: str) -> str:
    """`uid` as one part of a file name. Two uids never give the same part. `.` remains free as a separator."""
    return quote(uid, safe="").replace(".", "%2E")


def checksum_of(file: Path) -> str:
    found = hashlib.sha256()
    with file.open("rb") as source:
        while chunk := source.read(_CHUNK_BYTES):
            found.update(chunk)
    return found.hexdigest()


def unwritable(folder: Path) -> str | None:
    """The reason why `folder` cannot be written or created, in words, or None. Changes nothing."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not there.is_dir():
        return f"{there} is not a folder"
    if not os.access(there, os.W_OK | os.X_OK):
        return f"no right to write in {there}"
    return None


def _names(folder: Path) -> Iterator[str]:
    try:
        yield from sorted(os.listdir(folder))
    except FileNotFoundError:
        return


def _delete(epoch_folder: Path) -> None:
    for name in _names(epoch_folder):
        (epoch_folder / name).unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        epoch_folder.rmdir()
