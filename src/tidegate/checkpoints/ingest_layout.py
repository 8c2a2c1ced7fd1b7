"""The files of an ingest log on a disk: segments, named by their begin, and the mark with the end of the synced lines.

A log keeps the lines of a source that cannot be read again. `<offset>-<line>-<log>.lines` holds frames
(`ingest_frames`) back to back. The next segment begins where the one before it ends. `synced` holds the end.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tidegate.core.errors import Code, TidegateError
from tidegate.core.json_formats import Unreadable, parsed

INGEST = "ingest"
"""The folder of a job with one log for each source. It belongs to the checkpoints and is removed only with them."""


class IngestPosition(msgspec.Struct, frozen=True):
    """A place between two lines: the id of the log, the bytes of frames before it, and the number of lines before it.

    Both numbers count from the beginning of the log, also after a trim. Spark's offsets hold it as JSON.
    """

    log: str
    offset: int
    line: int

    def __str__(self) -> str:
        return f"line {self.line} of log {self.log}"


@dataclass(frozen=True, slots=True)
class Segment:
    """One file of the log, and its begin."""

    path: Path
    begin: IngestPosition


def named_by(begin: IngestPosition, suffix: str) -> str:
    """The name of what begins at this position. Sorted by name, segments and pieces are in order."""
    return f"{begin.offset:020d}-{begin.line:020d}-{begin.log}{suffix}"


def begin_in(name: str, suffix: str) -> IngestPosition | None:
    """The position in a name of `named_by`; None for another name."""
    found = _NAMED.fullmatch(name.removesuffix(suffix)) if name.endswith(suffix) else None
    return None if found is None else IngestPosition(found[3], int(found[1]), int(found[2]))


def segment_name(begin: IngestPosition) -> str:
    """The file name of the segment that begins at this position."""
    return named_by(begin, _SUFFIX)


def segments(folder: Path) -> list[Segment]:
    """The segments in a folder, oldest first. [] if the folder is absent."""
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    found = ((name, begin_in(name, _SUFFIX)) for name in names)
    return [Segment(folder / name, begin) for name, begin in found if begin is not None]


def unbroken(found: Sequence[Segment]) -> list[Segment]:
    """The newest segments without a gap between them.

    Segments before a gap were trimmed: a power loss may bring some of the removed files back.
    """
    kept: list[Segment] = []
    for segment in reversed(found):
        if kept and not _reaches(segment, kept[0].begin.offset):
            break
        kept.insert(0, segment)
    return kept


def _reaches(segment: Segment, offset: int) -> bool:
    """True if a segment ends where the next one begins. A segment that is being trimmed may have no file any more."""
    try:
        return segment.begin.offset + segment.path.stat().st_size == offset
    except FileNotFoundError:
        return False


def write_mark(descriptor: int, end: IngestPosition) -> None:
    """Record the end of the synced lines. Only living processes read this record, so the record is never synced."""
    body = _MARK.pack(end.log.encode(), end.offset, end.line)
    os.pwrite(descriptor, zlib.crc32(body).to_bytes(4, "big") + body, 0)


def synced_end(folder: Path, where: str) -> IngestPosition:
    """The end of the synced lines. Called in a process that does not write the log."""
    for _ in range(_LOOKS):
        try:
            data = (folder / MARK).read_bytes()
        except FileNotFoundError:
            break
        body = data[4:]
        if len(body) == _MARK.size and zlib.crc32(body).to_bytes(4, "big") == data[:4]:
            log, offset, line = _MARK.unpack(body)
            return IngestPosition(log.decode(), offset, line)
    raise lines_lost(f"the end of the ingest log, in {MARK}", "no whole record", f"{where}, {folder}")


def position_in(text: str | None) -> IngestPosition | None:
    """Read the text that Spark's offsets hold for one source, as a position in an ingest log.

    Returns None if there is no text (`text` is None), or if the source has no ingest log.
    """
    try:
        return None if text is None else parsed(text, IngestPosition)
    except Unreadable:
        return None


def lines_lost(expected: str, found: str, where: str, next_step: str = "") -> TidegateError:
    """The error for a log without the lines that a checkpoint still needs."""
    return TidegateError(
        Code.INGEST_LOST,
        expected=expected,
        found=found,
        where=where,
        next_step=next_step
        or "restore the folder; or start without these lines, under another job name or checkpointing.dir",
    )


def altered(expected: str, found: str, where: Path | str) -> TidegateError:
    """The error for a file of a log that is torn or altered in lines that counted already."""
    return TidegateError(
        Code.RECORD_CORRUPT,
        expected=expected,
        found=found,
        where=str(where),
        next_step="put the file back from a copy, then start again; without it these lines cannot be read",
    )


def missing_before(wanted: IngestPosition, found: Sequence[Segment]) -> Iterator[str]:
    """The reason why reading from `wanted` is impossible, as far as the names of the segments show.

    Yields nothing if reading is possible.
    """
    logs = {segment.begin.log for segment in found}
    if logs - {wanted.log}:
        yield f"another log, {', '.join(sorted(logs - {wanted.log}))}"
    elif not found:
        yield "no segments"
    elif wanted.offset < found[0].begin.offset:
        yield f"the oldest line that is kept: {found[0].begin}"


MARK = "synced"
_MARK = struct.Struct(">8sQQ")
_LOOKS = 100
"""A read may meet a write of the mark; the next read does not."""
_SUFFIX = ".lines"
_NAMED = re.compile(r"(\d{20})-(\d{20})-([0-9a-f]{8})")
