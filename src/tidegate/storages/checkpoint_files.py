"""The port `CheckpointFiles`: what Spark wrote into the checkpoint of a query, as tidegate reads, keeps and copies it.

Spark itself opens the same place by its own file systems; nothing here tells Spark what to write.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tidegate.disk.blocks import Readable

LEFT_OUT = "commits"
"""The folder directly below the root that `sync` leaves out: the ledger keeps the bytes of its entries."""


@dataclass(frozen=True, slots=True)
class CheckpointFile:
    """A file of a checkpoint. `name`: relative to the root, with `/`. `written_at`: seconds since 1970 by the storage's
    own clock; for figures, never for a decision."""

    name: str
    size_bytes: int
    written_at: float


@dataclass(frozen=True, slots=True)
class Measured:
    """What proves the copy of a file whole: its size, and its SHA-256 in hexadecimal digits."""

    size_bytes: int
    sha256: str


def is_temporary(name: str) -> bool:
    """Whether Spark is still writing the file of this name, or gave it up: `.<name>.<uuid>.tmp`, and the checksum of
    that. `name` is without folders."""
    return name.startswith(".") and name.endswith((".tmp", ".tmp.crc"))


class CheckpointFiles(Protocol):
    """The files below one root. Names are relative to it, with `/`.

    Spark writes and removes files there at any time. It writes none a second time under its name, but for entries of
    its logs and, with hashmap, state of an epoch that was not decided. So a file that vanishes is an ordinary answer,
    and a caller that needs the files of an epoch compares afterwards whether they can have gone.

    Every method but `where` raises TidegateError (STORAGE_FULL, STORAGE_UNUSABLE) for what the storage answers.
    """

    def where(self, name: str = "") -> str:
        """Where `name` is, as `open_checkpoint_files` takes it and as a person would look for it."""
        ...

    def list(self, folder: str = "") -> list[CheckpointFile]:
        """Every file below `folder`, however deep, sorted by name, without those that Spark is still writing; [] if
        the folder is absent. Files that vanish meanwhile may be left out; a folder that cannot be listed is an error,
        never an empty one."""
        ...

    def open(self, name: str) -> Readable | None:
        """The content of `name`, to be read once from its begin; None if it is absent. The caller closes it."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Create `name` with `data` in a checkpoint that nothing else writes to. Durable after `sync` only, or after
        `hold` of the whole; what is there under the name is an error."""
        ...

    def hold(self, name: str, into: str) -> bool:
        """Keep this file, as it is now, under the same name below `into`: a root on the same storage. It stays there
        when Spark removes its own, until `into` is removed. False if the file is absent, or vanishes meanwhile.

        It costs no copy where the storage has hard links. Elsewhere it is a copy by the storage itself, so that no byte
        comes through this process; who holds a large state then pays for it in storage, and the caller says so. A
        storage that can do neither raises STORAGE_UNUSABLE.
        """
        ...

    def copy(self, name: str, to: CheckpointFiles, passed: Callable[[int], object]) -> Measured | None:
        """Copy `name` to the same name below the root of `to`, which may be of another storage; durable at return, but
        for the name's folder, which `to.sync` makes durable. None if the file is absent.

        `passed` has the number of bytes of each block that was written. It may raise, to end the copy; what was written
        by then is for the caller to remove with the root of `to`.
        """
        ...

    def create(self, name: str, source: Readable, passed: Callable[[int], object]) -> Measured:
        """The other end of `copy`: a new file with all of `source`, its content durable at return."""
        ...

    def delete(self, name: str) -> None:
        """Remove `name`; no error if it is absent. Not durable. Only while no engine writes below this root."""
        ...

    def clear(self, folder: str) -> None:
        """Remove `folder` and all below it; no error if it is absent. Not durable. Only while no engine
        writes there."""
        ...

    def sync(self) -> list[str]:
        """Make durable all that is below the root at the call, but for `LEFT_OUT`; what this call had to sync, by name.

        One thread at a time; an object knows what it has synced before, so a later call costs only what is new. After
        a failure every further call raises: a second try would succeed without the lost bytes. A storage whose writes
        are durable when they appear has nothing to do.
        """
        ...
