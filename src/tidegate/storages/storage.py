"""The port `Storage`: records appear whole or not at all, and stay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

Names: TypeAlias = list[str]


@dataclass(frozen=True, slots=True)
class Seen:
    """What a look at a record tells without its content. `written_at`: when the content was written, in seconds since
    1970 by the storage's own clock. It is for people and figures: no rule of the protocol compares clocks."""

    size_bytes: int
    written_at: float


class Storage(Protocol):
    """Where the durable records of a job are kept. Names are relative, with `/` between folders.

    What a put wrote, and what `read` and `list` gave out, survives a power loss: a process that obeys a record which
    another process left behind must not lose it again. Threads may share one object; processes, also on different
    machines, may open the same place at once. A folder exists as soon as a record is below it; no caller makes one.

    Every method but `where` and `below` raises TidegateError (STORAGE_FULL, STORAGE_UNUSABLE) for what the storage
    answers, and ValueError for a name that leaves the root.
    """

    def where(self, name: str = "") -> str:
        """Where `name` is, as a person would look for it: a path, or a URI. For messages; "" is the root itself."""
        ...

    def below(self, folder: str) -> Storage:
        """The same storage, with `folder` as its root. It asks the storage for nothing."""
        ...

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Create `name` with `data`, whole or not at all, durable at return. True when this call created it.

        Of two calls at once exactly one creates. On False the content that is there is untouched and durable. Where the
        answer to a write can be lost, the storage looks afterwards: an error leaves open whether the record is there.
        """
        ...

    def replace(self, name: str, data: bytes) -> None:
        """Give `name` the content `data`, at once and durably; a reader sees the old content or the new one.

        Of two calls at once either may be the last. No record that decides anything is replaced by two writers.
        """
        ...

    def read(self, name: str) -> bytes | None:
        """The content of `name`, None when it is absent. It sees every put and replace that has returned, anywhere."""
        ...

    def peek(self, name: str) -> bytes | None:
        """As `read`, but what it gives may be lost in a power loss: for what this process itself has made durable, and
        for views."""
        ...

    def look(self, name: str) -> Seen | None:
        """Size and time of `name`, None when it is absent. Not durable, as `peek`. `name` is a file, never a folder."""
        ...

    def list(self, folder: str) -> Names:
        """The names of the files directly in `folder`, sorted, without temporary files. [] when it is absent.

        It sees every put that has returned. On a store that answers in pages it reads all of them.
        """
        ...

    def delete(self, name: str) -> None:
        """Remove `name`; no error when it is absent. Not durable: after a power loss the file may be back."""
        ...

    def set_aside(self, name: str) -> str | None:
        """Rename `name` to a free `.aside-<name>-<n>` in its folder, durably, and give the new name.

        None when the file was gone. Spark takes only names that are numbers for log entries, so never this one. A store
        that cannot rename copies if absent, then deletes: killed in between it leaves both, and nothing is lost.
        """
        ...

    def remove_leftovers(self, folder: str, of: str = "") -> None:
        """Remove what killed processes left of unfinished puts directly in `folder`; with `of` those for the file of
        that name. A storage that leaves nothing does nothing.

        Only while the lease proves that no other process writes there. A process that writes there all the same fails
        with its put, and harms nothing.
        """
        ...
