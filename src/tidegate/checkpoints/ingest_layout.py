"""The files of an ingest log: segments, named by where they begin, and the mark that says how much of them counts.

A log keeps the lines of a source that cannot give them a second time. `<offset>-<line>-<log>.lines` holds frames
(`ingest_frames`) back to back; the next segment begins where the one before it ends. `synced` holds the end.
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

INGEST = "ingest"
"""The folder of a job in which its sources have a log each. It goes with the checkpoints, and only with them."""


class Position(msgspec.Struct, frozen=True):
    """A place between two lines: in which log, behind how many bytes of frames, and behind how many lines.

    Both count from the beginning of the log, whatever was trimmed since. It stands as JSON in Spark's offsets.
    """

    log: str
    offset: int
    line: int

    def __str__(self) -> str:
        return f"line {self.line} of log {self.log}"


@dataclass(frozen=True, slots=True)
class Segment:
    """One file of the log, and where it begins."""

    path: Path
    begin: Position


def segment_name(begin: Position) -> str:
    """Sorted by name, segments are sorted by where they begin."""
    return f"{begin.offset:020d}-{begin.line:020d}-{begin.log}.lines"


def segments(folder: Path) -> list[Segment]:
    """The segments in a folder, oldest first. [] when it is absent."""
    try:
        found = [(name, parsed) for name in sorted(os.listdir(folder)) if (parsed := _SEGMENT.fullmatch(name))]
    except FileNotFoundError:
        return []
    return [Segment(folder / name, Position(parts[3], int(parts[1]), int(parts[2]))) for name, parts in found]


def unbroken(found: Sequence[Segment]) -> list[Segment]:
    """The newest segments without a gap between them.

    What lies before a gap was trimmed: a power loss may bring removed files back, some of them and not others.
    """
    kept: list[Segment] = []
    for segment in reversed(found):
        if kept and not _reaches(segment, kept[0].begin.offset):
            break
        kept.insert(0, segment)
    return kept


def _reaches(segment: Segment, offset: int) -> bool:
    """Whether a segment ends where the next one begins; one that is being trimmed away has no file any more."""
    try:
        return segment.begin.offset + segment.path.stat().st_size == offset
    except FileNotFoundError:
        return False


def write_mark(descriptor: int, end: Position) -> None:
    """Say how far the log is synced. Only living processes read it, so it is never synced itself."""
    body = _MARK.pack(end.log.encode(), end.offset, end.line)
    os.pwrite(descriptor, zlib.crc32(body).to_bytes(4, "big") + body, 0)


def synced_end(folder: Path, where: str) -> Position:
    """How far the log is synced, in another process than the one that writes it."""
    for _ in range(_LOOKS):
        try:
            data = (folder / MARK).read_bytes()
        except FileNotFoundError:
            break
        body = data[4:]
        if len(body) == _MARK.size and zlib.crc32(body).to_bytes(4, "big") == data[:4]:
            log, offset, line = _MARK.unpack(body)
            return Position(log.decode(), offset, line)
    raise lines_lost(f"the end of the ingest log, in {MARK}", "no whole record", f"{where}, {folder}")


def position_in(text: str | None) -> Position | None:
    """The position in an ingest log that stands in Spark's offsets; None where the source is of another kind."""
    try:
        return None if text is None else msgspec.json.decode(text, type=Position)
    except msgspec.MsgspecError:
        return None


def lines_lost(expected: str, found: str, where: str, next_step: str = "") -> TidegateError:
    """The log does not have the lines that a checkpoint still needs."""
    return TidegateError(
        Code.INGEST_LOST,
        expected=expected,
        found=found,
        where=where,
        next_step=next_step
        or "put the folder back as it was; or start under another job name or checkpointing.dir, without them",
    )


def missing_before(wanted: Position, found: Sequence[Segment]) -> Iterator[str]:
    """What stands against reading from `wanted` on, as far as the names of the segments tell."""
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
"""A look may fall into a write of the mark; the next one does not."""
_SEGMENT = re.compile(r"(\d{20})-(\d{20})-([0-9a-f]{8})\.lines")
