"""A piece of an ingest log that is not on a disk: one record with the frames of one append, named by their begin.

    <offset>-<line>-<log>.piece   a header, and frames (`ingest_frames`) back to back

The header has the token of the writer, and the position where the log begins. So the newest piece shows which older
pieces are needed. A piece below that position was left by an interrupted trim, or was put too late.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tidegate.checkpoints.ingest_frames import Frame, whole_frames
from tidegate.checkpoints.ingest_layout import IngestPosition, altered, begin_in, lines_lost, named_by
from tidegate.disk.side_by_side import side_by_side
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder


@dataclass(frozen=True, slots=True)
class Piece:
    """`writer`: the token of the process that wrote it. `kept_from`: where the log began for this process."""

    writer: bytes
    kept_from: IngestPosition
    frames: tuple[Frame, ...]

    @property
    def end(self) -> IngestPosition:
        return self.frames[-1].end


def piece_name(begin: IngestPosition) -> str:
    """The name of the piece that begins here."""
    return named_by(begin, _SUFFIX)


def begins_in(names: Sequence[str]) -> list[IngestPosition]:
    """The begins of the pieces among these names of a folder, in order."""
    found = (begin_in(name, _SUFFIX) for name in sorted(names))
    return [begin for begin in found if begin is not None]


def encode_piece(writer: bytes, kept_from: IngestPosition, frames: bytes) -> bytes:
    """The record of a piece. `writer` has `TOKEN_BYTES`."""
    place = _HEADER.pack(writer, kept_from.offset, kept_from.line)
    return _MAGIC + zlib.crc32(place).to_bytes(4, "big") + place + frames


def decode_piece(data: bytes, name: str, where: str) -> Piece:
    """The piece in the record `name`. Raises RECORD_CORRUPT if a byte of it is altered. `where`: its place."""
    head, body = data[: len(_MAGIC) + 4], data[len(_MAGIC) + 4 :]
    place = body[: _HEADER.size]
    whole = len(place) == _HEADER.size and head == _MAGIC + zlib.crc32(place).to_bytes(4, "big")
    if not whole:
        raise altered("a whole header of a piece of an ingest log", f"none in {len(data)} bytes", where)
    writer, offset, line = _HEADER.unpack(place)
    (begin,) = begins_in([name])
    frames = tuple(whole_frames(body[_HEADER.size :], begin))
    end = frames[-1].end.offset if frames else begin.offset
    if not frames or end - begin.offset != len(body) - _HEADER.size:
        raise altered("a piece of whole frames", f"a broken one {end - begin.offset} bytes behind {begin}", where)
    return Piece(writer, IngestPosition(begin.log, offset, line), frames)


@dataclass(frozen=True, slots=True)
class PieceSlice:
    """The rows of consecutive pieces between two positions, for one task: a `LogPart`. `folder`: that of the log."""

    folder: Folder
    names: tuple[str, ...]
    begin: IngestPosition
    end: IngestPosition
    where: str

    def frames(self) -> Iterator[Frame]:
        return (frame for frame in self.all_frames() if frame.rows)

    def all_frames(self) -> Iterator[Frame]:
        storage = open_storage(self.folder)
        at = self.begin
        for name, data in zip(self.names, side_by_side(storage.peek, self.names), strict=True):
            where = f"{self.where}, {storage.where(name)}"
            if data is None:
                raise lines_lost(f"the lines from {at} on", "no piece", where)
            for frame in decode_piece(data, name, where).frames:
                if not self.begin.offset <= frame.begin.offset < self.end.offset:
                    continue
                if frame.begin != at:
                    raise altered(f"a frame at {at}", f"one at {frame.begin}", where)
                yield frame
                at = frame.end
        if at.offset != self.end.offset:
            raise altered(f"frames up to {self.end}", f"none behind {at}", f"{self.where}, {storage.where()}")


def slices_of(
    folder: Folder, places: Sequence[IngestPosition], begin: IngestPosition, end: IngestPosition, where: str
) -> list[PieceSlice]:
    """The parts between two positions. `places`: the begins of the consecutive pieces with these rows, and the end of
    the last one.
    """
    found: list[PieceSlice] = []
    names: list[str] = []
    first = begin
    for place, following in pairwise(places):
        names.append(piece_name(place))
        until = min(following, end, key=lambda position: position.offset)
        if until == end or len(names) == _PIECES_AT_MOST or until.offset - first.offset >= _BYTES_AT_MOST:
            found.append(PieceSlice(folder, tuple(names), first, until, where))
            names, first = [], until
    return found


TOKEN_BYTES = 8
_MAGIC = b"TGP1"
_HEADER = struct.Struct(f">{TOKEN_BYTES}sQQ")
"""The token of the writer, and the offset and the line of the position where the log begins."""
_SUFFIX = ".piece"
_PIECES_AT_MOST = 32
_BYTES_AT_MOST = 8 << 20
"""Of one task, unless a single piece has more."""
