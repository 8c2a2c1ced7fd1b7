"""Reads an ingest log on a disk beside the process that appends to it: the synced lines, by position."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tidegate.checkpoints.ingest_frames import Frame, whole_frames
from tidegate.checkpoints.ingest_layout import (
    IngestPosition,
    Segment,
    altered,
    lines_lost,
    missing_before,
    segments,
    unbroken,
)
from tidegate.disk.durable import Trust


@dataclass(frozen=True, slots=True)
class Slice:
    """Lines of one segment, for one task: a `LogPart`."""

    segment: Segment
    begin: IngestPosition
    end: int
    where: str

    def frames(self) -> Iterator[Frame]:
        return (frame for frame in self.all_frames() if frame.rows)

    def all_frames(self) -> Iterator[Frame]:
        return read_slice(self)


def require(folder: Path, wanted: IngestPosition, end: IngestPosition, where: str) -> None:
    """Raise if the log that ends at `end` is another log than `wanted` refers to, or does not contain that position."""
    require_between(None, end, wanted, f"{where}, {folder}")
    for found in missing_before(wanted, unbroken(segments(folder))):
        raise lines_lost(_expected(wanted), found, f"{where}, {folder}")


def require_between(begin: IngestPosition | None, end: IngestPosition, wanted: IngestPosition, where: str) -> None:
    """Raise if a log from `begin` to `end` does not contain `wanted`. `begin` None: check the end alone."""
    if wanted.log != end.log:
        raise lines_lost(_expected(wanted), f"log {end.log}: the folder was removed or exchanged", where)
    if wanted.offset > end.offset:
        raise lines_lost(_expected(wanted), f"its end at {end}: it is an older copy", where)
    if begin is not None and wanted.offset < begin.offset:
        raise lines_lost(_expected(wanted), f"the oldest line that is kept: {begin}", where)


def _expected(wanted: IngestPosition) -> str:
    return f"the ingest log with {wanted} in it"


def slices(folder: Path, begin: IngestPosition, end: IngestPosition, where: str) -> list[Slice]:
    """The slices between two positions, in order; each segment is for one task."""
    found = unbroken(segments(folder))
    for missing in missing_before(begin, found):
        raise lines_lost(f"the lines from {begin} on", missing, f"{where}, {folder}")
    ends = [*(segment.begin.offset for segment in found[1:]), end.offset]
    wanted: list[Slice] = []
    for segment, segment_end in zip(found, ends, strict=True):
        first = begin if segment.begin.offset <= begin.offset else segment.begin
        last = min(segment_end, end.offset)
        if first.offset < last:
            wanted.append(Slice(segment, first, last, where))
    return wanted


def read_slice(wanted: Slice) -> Iterator[Frame]:
    """The frames of a slice. Raises RECORD_CORRUPT at the first broken frame, INGEST_LOST if the file is missing."""
    path = wanted.segment.path
    with Trust().over(path, "read the ingest log"):
        try:
            with path.open("rb") as file:
                file.seek(wanted.begin.offset - wanted.segment.begin.offset)
                data = file.read(wanted.end - wanted.begin.offset)
        except FileNotFoundError:
            raise lines_lost(f"the lines from {wanted.begin} on", "no file", f"{wanted.where}, {path}") from None
    at = wanted.begin
    for frame in whole_frames(data, wanted.begin):
        yield frame
        at = frame.end
    if at.offset != wanted.end:
        raise altered(f"whole frames up to byte {wanted.end} of the log", f"none behind {at}", path)
