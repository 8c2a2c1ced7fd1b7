"""The port `InputFiles`: files that other programs write into a folder: listed, looked at, moved away at last."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from tidegate.storages.schemes import Folder


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file of another program. `name`: relative to the root, with `/`. `written_at_ns`: nanoseconds since 1970, by
    the storage's clock, in whole units of its time.
    """

    name: str
    size_bytes: int
    written_at_ns: int


class InputFiles(Protocol):
    """The files below one root. All methods except `where` raise STORAGE_UNUSABLE for errors of the storage."""

    @property
    def appear_whole(self) -> bool:
        """True if no file can be seen while it is written."""
        ...

    @property
    def time_unit_ns(self) -> int:
        """The unit of the times that each answer of the storage has, to this client and to Spark's."""
        ...

    @property
    def can_move(self) -> bool:
        """True if a file can be renamed in one step. Without that, another program's new file could be removed."""
        ...

    def where(self, name: str = "") -> str:
        """The place of `name`, for messages; "" is the root itself."""
        ...

    def below(self, enters: Callable[[str], bool]) -> Iterator[InputFile]:
        """All files below the root, at any depth, in no order, page by page: memory does not grow with their number.

        A folder that `enters` refuses may be passed over with all below it. No file if the root is absent. Files that
        appear or vanish meanwhile may be missing.
        """
        ...

    def look(self, name: str) -> InputFile | None:
        """The file as it is now; None if it is absent."""
        ...

    def digest(self, name: str) -> str | None:
        """A text that differs where the content differs: of the first and last 4 KiB, or the store's own version of the
        whole. None if the file is absent.
        """
        ...

    def move(self, name: str, into: Folder, known_as: str) -> bool:
        """Rename whichever file has this name now to `known_as` below the folder `into` of the same storage. False if
        that name is taken: then nothing is changed. Raises FileNotFoundError if there is no file. Only if `can_move`.
        """
        ...

    def remove(self, name: str) -> None:
        """Remove a file; no error if it is absent. Only if `can_move`: a caller gives the file a name of its own
        first.
        """
        ...
