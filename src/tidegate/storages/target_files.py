"""The port `TargetFiles`: files of data that are staged under a hidden name first, and published under another one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from typing_extensions import Buffer


@dataclass(frozen=True, slots=True)
class FileProof:
    """What proves that a file is the one that was staged: its size, its SHA-256 in hexadecimal digits, and the token of
    its writer, which no other file has.
    """

    size_bytes: int
    sha256: str
    token: str


class Fit(Enum):
    """Whether a file is the one that a proof describes."""

    SAME = "it is that file"
    OTHER = "it is another file, or a part of it"
    ABSENT = "there is no file"


class Published(Enum):
    """What became of a request to publish a staged file."""

    VISIBLE = "its content is visible under the final name"
    UNSTAGED = "neither the staged file nor the published one is there"
    TAKEN = "the final name belongs to another file, which stays"


@dataclass(frozen=True, slots=True)
class NameLimits:
    """The longest names that the storage takes, in bytes. `root_bytes`: the length of the root of the files."""

    root_bytes: int
    path_bytes: int
    part_bytes: int = 255


class NewTargetFile(Protocol):
    """A staged file that one thread writes from its begin to its end: `write`, then `close`, or `abandon` at any time.

    Every method but `abandon` raises STORAGE_FULL and STORAGE_UNUSABLE.
    """

    def write(self, data: Buffer, /) -> int:
        """Append all of `data`. Returns its size in bytes."""
        ...

    def close(self) -> None:
        """Make the file durable, and readable under its name for every process."""
        ...

    def abandon(self) -> None:
        """Remove what was written, also after `close`. What cannot be removed is hidden; it goes with its folder."""
        ...


class TargetFiles(Protocol):
    """The files below the folder that a sink writes to. Names are relative to it, with `/`.

    A staged file appears whole or not at all, durable, and never changes. It is published as a whole: a reader that
    lists sees no part of it. Tasks stage on their machines; a driver publishes. Several drivers may publish the same
    file at the same time: the second one finds it published.

    All methods except `where` raise TidegateError (STORAGE_FULL, STORAGE_UNUSABLE) for errors of the storage.
    """

    @property
    def keeps_staged(self) -> bool:
        """True if publishing copies: the staged file stays until it is removed. False if publishing moves it."""
        ...

    @property
    def file_bytes_at_most(self) -> int | None:
        """The size after which a writer begins another file; None where files may grow without an end."""
        ...

    @property
    def open_at_most(self) -> int:
        """Staged files that one task may have open at once: each has a buffer or a connection."""
        ...

    @property
    def limits(self) -> NameLimits: ...

    def where(self, name: str = "") -> str:
        """The place of `name` as a URI, for messages; "" is the root itself."""
        ...

    def create(self, name: str, token: str) -> NewTargetFile:
        """A new staged file. `token` is a part of its proof, and no other file of this storage has it."""
        ...

    def fit(self, name: str, proof: FileProof) -> Fit:
        """Compare a staged or a published file with its proof, without reading its content."""
        ...

    def publish(self, name: str, to: str, proof: FileProof) -> Published:
        """Make the content of the staged file `name` visible under `to`, durable at return; folders above are made.

        Idempotent. The answer of the storage is not trusted: after a doubtful one the file itself is looked at. The
        caller has compared the staged file with its proof.
        """
        ...

    def unfinished(self, folder: str) -> Sequence[str]:
        """What writers of staged files below this folder have begun, and neither closed nor abandoned: names for
        `give_up`. Empty if nothing of it stays that the removal of the folder does not take.
        """
        ...

    def give_up(self, unfinished: Sequence[str]) -> None:
        """Remove what `unfinished` returned; no error for what is gone.

        A writer that is alive nevertheless fails when it closes its file.
        """
        ...

    def proves_publication(self, folder: str) -> bool:
        """True if a file that is missing from this folder of staged files must have been published.

        It is so where publishing moves: a staged file leaves its folder in no other way, as long as the folder is
        there. Where publishing copies, nothing follows from it.
        """
        ...

    def settle(self, folders: Iterable[str]) -> None:
        """Make everything durable that other processes have published into these folders and that this one has seen."""
        ...
