"""The port `Storage`: records appear whole or not at all, and stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

Names: TypeAlias = list[str]


@dataclass(frozen=True, slots=True)
class RecordStat:
    """Facts about a record without its content. `written_at`: when the content was written, in seconds since 1970 by
    the storage's own clock. It is for display only: no rule of the protocol compares clocks.
    """

    size_bytes: int
    written_at: float


def demand_below(name: str) -> None:
    """Raise ValueError for a name that leads out of the storage's root."""
    if name.startswith("/") or ".." in name.split("/"):
        raise ValueError(f"not a name below the storage's root: {name!r}")


class Storage(Protocol):
    """Stores the durable records of a job. Names are relative to the root, with `/` between folders.

    The data of a put, and the results of `read` and `list`, survive a power loss: a process that acts on a record of
    another process must not lose it again. Threads may share one object. Processes, also on different machines, may
    open the same place at the same time. A folder exists as soon as a record is below it; callers create none.

    All methods except `where` and `below` raise TidegateError (STORAGE_FULL, STORAGE_UNUSABLE) for errors of the
    storage, and ValueError for a name outside of the root.
    """

    def where(self, name: str = "") -> str:
        """The place of `name` as a path or a URI, for messages; "" is the root itself."""
        ...

    def below(self, folder: str) -> Storage:
        """The same storage, with `folder` as its root. Sends no request to the storage."""
        ...

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Create `name` with `data`, whole or not at all, durable at return. True if this call created it.

        Of two calls at the same time exactly one creates it. On False the existing content is unchanged and durable. If
        the answer to a write can be lost, the storage reads the record afterwards: an error does not show if the record
        exists.
        """
        ...

    def replace(self, name: str, data: bytes) -> None:
        """Replace the content of `name` by `data`, atomically and durably; a reader sees the old or the new content.

        Of two calls at the same time either may be the last. Records that decide anything never have two writers that
        replace.
        """
        ...

    def note(self, name: str, data: bytes) -> None:
        """Like `replace`, but a power loss may lose or tear the content: for what is only shown, such as the status of
        a running job. A reader still sees the old or the new content.
        """
        ...

    def read(self, name: str) -> bytes | None:
        """The content of `name`, None if it is absent. It sees every put and replace that has returned, on any
        machine.
        """
        ...

    def peek(self, name: str) -> bytes | None:
        """Like `read`, but a power loss may lose the result: for records that this process itself has made durable, and
        for display.
        """
        ...

    def look(self, name: str) -> RecordStat | None:
        """Size and time of `name`, None if it is absent. Not durable, like `peek`. `name` is a file, never a folder."""
        ...

    def list(self, folder: str) -> Names:
        """The names of the files directly in `folder`, sorted, without temporary files. [] if the folder is absent.

        It sees every put that has returned. A store that answers in pages reads all pages.
        """
        ...

    def peek_names(self, folder: str) -> Names:
        """Like `list`, but a power loss may lose the result: for display, and for measures of time. It changes nothing
        and needs no right to write.
        """
        ...

    def folders(self, folder: str) -> Names:
        """The names of the folders directly in `folder`, sorted; [] if the folder is absent.

        In a store without folders these are the names up to the next `/` below which there is a record.
        """
        ...

    def delete(self, name: str) -> None:
        """Remove `name`; no error if it is absent. Not durable: after a power loss the file may exist again, unless
        `settle` was called.
        """
        ...

    def delete_all(self, names: Sequence[str]) -> None:
        """Like `delete` of each of them, in any order and in as few requests as the store can."""
        ...

    def delete_folder(self, folder: str) -> None:
        """Remove an empty folder. No error if it is absent, or if there is something in it: then it stays. A store
        without folders does nothing.
        """
        ...

    def clear(self, folder: str) -> None:
        """Remove `folder` and all below it; no error if it is absent. Only while no process writes there.

        A store that can rename a folder removes it from its name at once, so that no part of it is ever found. Any
        other store removes one record after the other; the next call completes the work of a killed process.
        """
        ...

    def settle(self, folder: str) -> None:
        """Make every `delete` directly in `folder` durable that has returned. A store with durable deletes does
        nothing.
        """
        ...

    def set_aside(self, name: str) -> str | None:
        """Rename `name` to a free `.aside-<name>-<n>` in its folder, durably, and return the new name.

        None if the file was gone. Spark accepts only numbers as names of log entries, so it never reads this one. A
        store without a rename copies if absent, then deletes. A kill between the two leaves both files, and nothing is
        lost.
        """
        ...

    def remove_leftovers(self, folder: str, of: str = "") -> None:
        """Remove the rest of unfinished puts of killed processes directly in `folder`; with `of` only for the file of
        that name. A storage that leaves nothing does nothing.

        Only while the lease proves that no other process writes there. If a process writes there nevertheless, its put
        fails without further harm.
        """
        ...
