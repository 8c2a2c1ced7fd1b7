"""The list of an epoch: the files that the epoch reads, each with its size and time when the list was written.

A list is an entry of the source's log in Spark's checkpoint, `sources/<place>/<number>-<digest>`. It has the format of
Spark's own entries, so recovery and savepoints treat both in the same way: the line `v1`, then one JSON value a line.
The first value describes the list: its format, the SHA-256 of all lines after it, the digest of the list before it, and
a random token. So no two lists have the same name, and a list leads to all older ones. Entries that Spark's own file
source has written can be read, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from tidegate.core.digests import sha256
from tidegate.core.json_formats import Flaw, ListFormat, Unreadable, parsed
from tidegate.core.spark_log import named_list
from tidegate.sources.files.listing import SeenFile

FORMAT = 1
"""The format that this release writes. Every one up to it is read for ever."""


class Listed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file in a list: its path below the root, its size in bytes, its time.

    `size`: None in an entry of Spark's own source, which stores only the time, in milliseconds. `ends`: a digest of the
    first and last 4 KiB; None if reading the file was expensive.
    """

    path: str
    mtime_ns: int
    size: int | None = None
    ends: str | None = None

    def fits(self, seen: SeenFile) -> bool:
        """True if the file still has the size and time in the list."""
        if self.size is None:
            return self.mtime_ns // _MILLISECOND_NS == seen.mtime_ns // _MILLISECOND_NS
        return (self.size, self.mtime_ns) == (seen.size, seen.mtime_ns)


class ListPosition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The position where an epoch ends: the number of its list, and the digest of that list. Spark's offsets hold it as
    JSON.

    In a position of Spark's own file source the digest is empty. The number of `BEGIN` is -1.
    """

    logOffset: int  # noqa: N815 (Spark's name)
    digest: str = ""

    def to_text(self) -> str:
        return msgspec.json.encode(self).decode()

    @property
    def is_of_spark(self) -> bool:
        return not self.digest

    @property
    def name(self) -> str:
        """The name of the list."""
        return str(self.logOffset) if self.is_of_spark else named_list(self.logOffset, self.digest)


BEGIN = ListPosition(logOffset=-1)
"""Before the first list."""


class _OfSpark(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    timestamp: int
    batchId: int  # noqa: N815 (Spark's name)


def encode(files: Sequence[Listed], *, follows: str = "", token: str = "") -> bytes:
    """The list as the bytes of its log entry. `follows`: the digest of the list before it; empty behind none of
    tidegate's.
    """
    return b"\n".join([_VERSION, _FORMAT.encode(files, follows=follows, token=token)])


def digest_of(data: bytes) -> str:
    """The digest that a position stores for a list."""
    return sha256(data)[:16]


def decode(data: bytes, where: str) -> list[Listed]:
    """The files of a list that tidegate wrote. `where`: the file's path for errors.

    Raises RECORD_CORRUPT if the list is damaged, RECORD_NEWER if a newer release wrote it.
    """
    try:
        return _FORMAT.decode(_below_version(data))
    except Unreadable as flaw:
        raise flaw.error(where, _NEXT_STEP) from None


def followed_by(data: bytes, where: str) -> str:
    """The digest of the list that this one, which tidegate wrote, follows. Errors as of `decode`."""
    try:
        return _FORMAT.follows(_below_version(data))
    except Unreadable as flaw:
        raise flaw.error(where, _NEXT_STEP) from None


def _below_version(data: bytes) -> bytes:
    version, _, rest = data.partition(b"\n")
    if version != _VERSION:
        raise Unreadable(Flaw.OTHER_FORMAT, "a list of files of tidegate", repr(data[:80]))
    return rest


def decode_of_spark(data: bytes, name_of: Callable[[str], str], where: str) -> list[tuple[int, Listed]]:
    """The files of an entry that Spark's own file source wrote, each with the number of its list.

    A compact entry holds the files of several lists. `name_of`: converts Spark's URI into the path below the root.
    Raises RECORD_CORRUPT.
    """
    try:
        found = [parsed(line, _OfSpark, _ENTRY_OF_SPARK) for line in data.split(b"\n")[1:] if line]
    except Unreadable as flaw:
        raise flaw.error(where, _NEXT_STEP) from None
    return [
        (each.batchId, Listed(path=name_of(each.path), mtime_ns=each.timestamp * _MILLISECOND_NS)) for each in found
    ]


_VERSION = b"v1"
"""Spark's first line of an entry."""
_FORMAT = ListFormat(Listed, "file-list", FORMAT)
_ENTRY_OF_SPARK = "an entry of Spark's file source"
_NEXT_STEP = "put the file back from a copy; do not delete it: what it says cannot be guessed"
_MILLISECOND_NS = 1_000_000
