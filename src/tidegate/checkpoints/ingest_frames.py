"""Frames: the rows that were synced together, under one checksum that also covers where they stand.

A frame is written behind one that is synced, so a crash tears at most the last one, and all that counts is whole.
What a payload is the source knows (`tidegate.sources.logged`). Lines stand in it as they came, each ended by a newline:
the files can be read without tidegate.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidegate.checkpoints.ingest_layout import IngestPosition


@dataclass(frozen=True, slots=True)
class Payload:
    """The bytes of some rows, and how many rows they are."""

    rows: int
    data: bytes

    @staticmethod
    def of_lines(lines: Sequence[bytes]) -> Payload:
        """The payload of lines, none with a newline in it."""
        return Payload(len(lines), b"\n".join([*lines, b""]) if lines else b"")


@dataclass(frozen=True, slots=True)
class Frame:
    """Whole rows, and where they begin and end. `rows` is how many the payload has."""

    begin: IngestPosition
    end: IngestPosition
    payload: bytes

    @property
    def rows(self) -> int:
        return self.end.line - self.begin.line

    def data(self) -> bytes:
        """The frame as it is in the log."""
        return encode_frame(self.begin, Payload(self.rows, self.payload))[0]

    def lines(self) -> list[bytes]:
        """The lines without their newlines."""
        return self.payload.split(b"\n")[:-1]


def encode_frame(begin: IngestPosition, payload: Payload) -> tuple[bytes, IngestPosition]:
    """The frame of a payload, and where it ends. A frame without rows stands only in logs that are in pieces, and in
    segments that were made of them.
    """
    place = _PLACE.pack(begin.log.encode(), begin.offset, begin.line, payload.rows, len(payload.data))
    checksum = zlib.crc32(payload.data, zlib.crc32(place))
    data = _MAGIC + checksum.to_bytes(4, "big") + place + payload.data
    return data, IngestPosition(begin.log, begin.offset + len(data), begin.line + payload.rows)


def whole_frames(data: bytes, begin: IngestPosition) -> Iterator[Frame]:
    """The consecutive frames from `begin`, where `data` begins, up to the first that is not whole."""
    at = begin
    while (frame := _frame(data, at.offset - begin.offset, at.log, at.offset)) is not None and frame.begin == at:
        yield frame
        at = frame.end


def frame_behind(data: bytes, begin: IngestPosition, end: IngestPosition) -> IngestPosition | None:
    """The place of a whole frame after a broken one, or None. If there is one, the broken frame is not a torn end."""
    at = end.offset - begin.offset
    while (at := data.find(_MAGIC, at + 1)) >= 0:
        frame = _frame(data, at, begin.log, begin.offset + at)
        if frame is not None:
            return frame.begin
    return None


def _frame(data: bytes, at: int, log: str, offset: int) -> Frame | None:
    """The frame at `at` in `data`, if it is whole, belongs to this log and was written for this offset."""
    head = data[at : at + _HEAD]
    if len(head) < _HEAD or head[:4] != _MAGIC:
        return None
    own_log, own_offset, line, count, length = _PLACE.unpack(head[8:])
    payload = data[at + _HEAD : at + _HEAD + length]
    if (own_log, own_offset, len(payload)) != (log.encode(), offset, length):
        return None
    if zlib.crc32(payload, zlib.crc32(head[8:])) != int.from_bytes(head[4:8], "big"):
        return None
    end = IngestPosition(log, offset + _HEAD + length, line + count)
    return Frame(IngestPosition(log, offset, line), end, payload)


_MAGIC = b"TGL1"
_PLACE = struct.Struct(">8sQQII")
"""The header: id of the log, offset, number of the first line, count of lines, bytes of the payload."""
_HEAD = 8 + _PLACE.size
