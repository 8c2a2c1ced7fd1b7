"""Frames: lines that are synced together, under one checksum that also covers their place.

A frame is written behind a synced one, so a crash tears at most the last frame, and all acknowledged lines are whole.
Lines stand in a frame unchanged, each ended by a newline: the files can be read without tidegate.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidegate.checkpoints.ingest_layout import Position


@dataclass(frozen=True, slots=True)
class Frame:
    """Whole lines, and the positions of their begin and end."""

    begin: Position
    end: Position
    payload: bytes

    def lines(self) -> list[bytes]:
        """The lines without their newlines."""
        return self.payload.split(b"\n")[:-1]


def encode_frame(begin: Position, lines: Sequence[bytes]) -> tuple[bytes, Position]:
    """The frame of these lines (at least one, none with a newline in it), and the position of its end."""
    payload = b"\n".join([*lines, b""])
    place = _PLACE.pack(begin.log.encode(), begin.offset, begin.line, len(lines), len(payload))
    checksum = zlib.crc32(payload, zlib.crc32(place))
    data = _MAGIC + checksum.to_bytes(4, "big") + place + payload
    return data, Position(begin.log, begin.offset + len(data), begin.line + len(lines))


def whole_frames(data: bytes, begin: Position) -> Iterator[Frame]:
    """The consecutive frames from `begin`, where `data` begins, up to the first that is not whole."""
    at = begin
    while (frame := _frame(data, at.offset - begin.offset, at.log, at.offset)) is not None and frame.begin == at:
        yield frame
        at = frame.end


def frame_behind(data: bytes, begin: Position, end: Position) -> Position | None:
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
    end = Position(log, offset + _HEAD + length, line + count)
    return Frame(Position(log, offset, line), end, payload)


_MAGIC = b"TGL1"
_PLACE = struct.Struct(">8sQQII")
"""The header: id of the log, offset, number of the first line, count of lines, bytes of the payload."""
_HEAD = 8 + _PLACE.size
