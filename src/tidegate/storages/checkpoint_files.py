"""The port `CheckpointFiles`: tidegate reads, keeps and copies the files that Spark wrote into a query's checkpoint.

Spark itself opens the same place by its own file systems. This port does not change what Spark writes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

from tidegate.disk.blocks import Readable, read_blocks

LEFT_OUT = "commits"
"""The folder directly below the root that `sync` leaves out: the ledger keeps the bytes of its entries."""


@dataclass(frozen=True, slots=True)
class CheckpointFile:
    """A file of a checkpoint. `name`: relative to the root, with `/`. `written_at`: seconds since 1970 by the storage's
    own clock; for display, never for a decision.
    """

    name: str
    size_bytes: int
    written_at: float


@dataclass(frozen=True, slots=True)
class Measured:
    """The proof that a copy of a file is complete: its size, and its SHA-256 in hexadecimal digits."""

    size_bytes: int
    sha256: str


def is_temporary(name: str) -> bool:
    """True for a file that Spark is still writing, or has abandoned: `.<name>.<uuid>.tmp`, and its checksum. `name` is
    without folders.
    """
    return name.startswith(".") and name.endswith((".tmp", ".tmp.crc"))


def is_of_a_dead_engine(name: str) -> bool:
    """True for a file that Spark has abandoned, if no engine writes any more. Tidegate's own hidden files are none.
    `name` is without folders.
    """
    written, _, token = name.removesuffix(".crc").removesuffix(".tmp").rpartition(".")
    return is_temporary(name) and len(written) > 1 and bool(token) and set(token) <= _OF_A_TOKEN


_OF_A_TOKEN = frozenset("0123456789abcdef-")


class OpenFile(Readable, Protocol):
    """A file that its reader closes."""

    def close(self) -> None: ...


class CheckpointFiles(Protocol):
    """The files below one root. Names are relative to it, with `/`.

    Spark writes and removes files there at any time. It writes no file twice under one name, except entries of its logs
    and, with hashmap, state of an undecided epoch. So a vanished file is an ordinary answer. A caller that needs the
    files of an epoch must check afterwards if some may have vanished.

    All methods except `where` raise TidegateError (STORAGE_FULL, STORAGE_UNUSABLE) for errors of the storage.
    """

    def where(self, name: str = "") -> str:
        """The place of `name`, as `open_checkpoint_files` accepts it, and for messages."""
        ...

    def list(self, folder: str = "") -> list[CheckpointFile]:
        """All files below `folder`, at any depth, sorted by name, without those that Spark is still writing; [] if the
        folder is absent. Files that vanish during the call may be missing. A folder that cannot be listed is an error,
        never an empty result.
        """
        ...

    def unfinished(self) -> list[str]:
        """The names of all files that Spark was writing when its process died, below the root, sorted. Only while no
        engine writes there. Files that vanish during the call may be missing.
        """
        ...

    def open(self, name: str) -> OpenFile | None:
        """The content of `name`, for one read from its begin; None if it is absent. The caller closes it."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Create `name` with `data` in a checkpoint without other writers. Durable only after `sync`, or after `hold`
        of the whole. An existing file of this name is an error.
        """
        ...

    def hold(self, name: str, into: str) -> bool:
        """Keep the current content of this file under the same name below `into`: a root on the same storage. It stays
        there until `into` is removed, also when Spark removes its own file. False if the file is absent, or vanishes
        during the call.

        It needs no copy if the storage has hard links. Otherwise the storage itself copies, if it can, so that no byte
        comes through this process; else this process copies (HDFS). A large state then costs room and time, and the
        caller reports that.
        """
        ...

    def copy(self, name: str, to: CheckpointFiles, passed: Callable[[int], object]) -> Measured | None:
        """Copy `name` to the same name below the root of `to`, possibly on another storage. Its content is durable at
        return; `to.sync` makes the name's folder durable. None if the file is absent.

        `passed` receives the number of bytes of each written block. It may raise, to stop the copy. The caller then
        removes the written part together with the root of `to`.
        """
        ...

    def create(self, name: str, source: Readable, passed: Callable[[int], object]) -> Measured:
        """The target side of `copy`: a new file with all of `source`, its content durable at return."""
        ...

    def delete(self, name: str) -> None:
        """Remove `name`; no error if it is absent. Not durable. Only while no engine writes below this root."""
        ...

    def clear(self, folder: str) -> None:
        """Remove `folder` and all below it; no error if it is absent. Not durable. Only while no engine
        writes there."""
        ...

    def sync(self) -> list[str]:
        """Make everything below the root durable that exists at the call, except `LEFT_OUT`. Returns the names that
        this call had to sync.

        One thread at a time. An object remembers the files that it has synced, so a later call handles only new ones.
        After a failure every further call raises: a second try would succeed without the lost bytes. A storage with
        durable writes has nothing to do.
        """
        ...


def copy_by_reading(
    source: CheckpointFiles, name: str, to: CheckpointFiles, passed: Callable[[int], object]
) -> Measured | None:
    """Copy a file through this process: a `CheckpointFiles.copy` for storages without a faster way."""
    file = source.open(name)
    if file is None:
        return None
    with closing(file):
        return to.create(name, file, passed)


def measured_at(files: CheckpointFiles, name: str) -> Measured | None:
    """Size and SHA-256 of a file, which is read completely; None if it is absent."""
    file = files.open(name)
    if file is None:
        return None
    with closing(file):
        return Measured(*read_blocks(file, lambda _block: None))
