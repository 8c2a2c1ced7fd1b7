"""The list of an epoch: which files it reads, each as it was when the list was made.

A list is an entry of the source's log in Spark's checkpoint, `sources/<place>/<number>`, and has the form of Spark's
own entries, so recovery and savepoints treat both alike: the line `v1`, then JSON values, one a line. The first is
about the list: its format and the SHA-256 of all lines that follow. Entries that Spark's own file source has written
are read, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import msgspec

from tidegate.core.errors import Code, TidegateError
from tidegate.core.spoilt import SPOILT
from tidegate.sources.files.listing import SeenFile

FORMAT = 1
"""The format that this release writes. Every one up to it is read for ever."""


class Listed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file of a list: its path below the root. `size` is None where Spark's own source has listed it, which notes the
    time alone, in milliseconds. `ends`: a digest of the first and the last 4 KiB; None where reading costs."""

    path: str
    mtime_ns: int
    size: int | None = None
    ends: str | None = None

    def fits(self, seen: SeenFile) -> bool:
        """Whether a file is still what was listed, by size and time."""
        if self.size is None:
            return self.mtime_ns // _MILLISECOND_NS == seen.mtime_ns // _MILLISECOND_NS
        return (self.size, self.mtime_ns) == (seen.size, seen.mtime_ns)


class ListPosition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where an epoch ends: the number of its list, and the digest of that list. It stands as JSON in Spark's offsets.
    The digest is empty in one of Spark's own file source."""

    logOffset: int  # noqa: N815 (Spark's name)
    digest: str = ""

    def to_text(self) -> str:
        return msgspec.json.encode(self).decode()


class _Header(msgspec.Struct, frozen=True, kw_only=True):
    tidegate: str
    format: int
    sha256: str


class _OfSpark(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    timestamp: int
    batchId: int  # noqa: N815 (Spark's name)


def encode(files: Sequence[Listed]) -> bytes:
    """A list as the bytes of its entry."""
    body = b"\n".join(msgspec.json.encode(each) for each in files)
    header = _Header(tidegate=_KIND, format=FORMAT, sha256=hashlib.sha256(body).hexdigest())
    return b"\n".join([_VERSION, msgspec.json.encode(header), *([body] if files else [])])


def digest_of(data: bytes) -> str:
    """What a position names a list by."""
    return hashlib.sha256(data).hexdigest()[:16]


def is_of_spark(data: bytes) -> bool:
    """Whether Spark's own file source has written an entry."""
    _, _, rest = data.partition(b"\n")
    return b'"tidegate"' not in rest.partition(b"\n")[0]


def decode(data: bytes, where: str) -> list[Listed]:
    """The files of a list of tidegate's. Raises RECORD_CORRUPT and RECORD_NEWER; `where` names the file."""
    version, _, rest = data.partition(b"\n")
    first, _, body = rest.partition(b"\n")
    try:
        header = msgspec.json.decode(first, type=_Header)
    except SPOILT:
        raise _corrupt("a list of files of tidegate", repr(data[:80]), where) from None
    if version != _VERSION or header.tidegate != _KIND:
        raise _corrupt(f"a `{_KIND}`", repr(data[:80]), where)
    if header.format > FORMAT:
        raise TidegateError(
            Code.RECORD_NEWER,
            expected=f"format version {FORMAT} or older",
            found=f"format version {header.format}",
            where=where,
        )
    if hashlib.sha256(body).hexdigest() != header.sha256:
        raise _corrupt("files that fit their checksum", f"{len(body)} bytes that do not", where)
    try:
        return [msgspec.json.decode(line, type=Listed) for line in body.split(b"\n") if line]
    except SPOILT as error:
        raise _corrupt("the fields of a file", str(error), where) from None


def decode_of_spark(data: bytes, name_of: Callable[[str], str], where: str) -> list[tuple[int, Listed]]:
    """The files of an entry of Spark's own file source, each with the number of its list; a compact entry has those of
    several. `name_of` gives the path below the root for Spark's URI. Raises RECORD_CORRUPT."""
    try:
        found = [msgspec.json.decode(line, type=_OfSpark) for line in data.split(b"\n")[1:] if line]
    except SPOILT as error:
        raise _corrupt("an entry of Spark's file source", str(error), where) from None
    return [
        (each.batchId, Listed(path=name_of(each.path), mtime_ns=each.timestamp * _MILLISECOND_NS)) for each in found
    ]


def _corrupt(expected: str, found: str, where: str) -> TidegateError:
    return TidegateError(
        Code.RECORD_CORRUPT,
        expected=expected,
        found=found,
        where=where,
        next_step="put the file back from a copy; do not delete it: what it says cannot be guessed",
    )


_VERSION = b"v1"
_KIND = "file-list"
_MILLISECOND_NS = 1_000_000
