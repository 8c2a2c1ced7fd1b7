"""What stands in the folder of an ingest log in pieces, as any process sees it.

log              the name of the folder with the pieces of the log: its id; `<id>-g<G>` if a restore has made it
owner            the token of the process that opened the log last
<id>/            the pieces (`ingest_piece`); a folder that *log* does not name is of a log that was given up
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.checkpoints.ingest_layout import IngestPosition, altered, lines_lost
from tidegate.checkpoints.ingest_piece import PieceSlice, begins_in, decode_piece, piece_name, slices_of
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Storage

LOG = "log"
OWNER = "owner"


@dataclass(frozen=True, slots=True)
class LoggedPieces:
    """`begin`: where the log begins for its newest writer. `places`: the begins of the pieces that are there, in order,
    and the end of the last one. There are none between `begin` and the first of them.
    """

    folder: Folder
    begin: IngestPosition
    places: Sequence[IngestPosition]

    @property
    def end(self) -> IngestPosition:
        """The position after the newest row."""
        last = self.last_with_rows()
        return self.begin if last is None else self.places[bisect_right(self.places, last.offset, key=offset_of)]

    def last_with_rows(self) -> IngestPosition | None:
        """The begin of the last piece with rows. A piece without rows has the same line at both ends."""
        for at in range(len(self.places) - 2, -1, -1):
            begin, end = self.places[at], self.places[at + 1]
            if begin.line < end.line and begin.offset >= self.begin.offset:
                return begin
        return None

    def parts(self, begin: IngestPosition, end: IngestPosition, where: str) -> list[PieceSlice]:
        """The rows between two positions. Raises INGEST_LOST if they are not all there."""
        if begin.log != self.begin.log or begin.offset < self.begin.offset:
            kept = f"those from {self.begin} on"
            raise lines_lost(f"the lines from {begin} on", kept, f"{where}, {self.folder}")
        if begin.offset >= end.offset:
            return []
        first = bisect_right(self.places, begin.offset, key=offset_of) - 1
        if first < 0:
            raise lines_lost(
                f"the lines from {begin} on", f"pieces from {self.places[0]} on", f"{where}, {self.folder}"
            )
        last = bisect_left(self.places, end.offset, key=offset_of)
        return slices_of(self.folder, self.places[first : last + 1], begin, end, where)


def standing_in(folder: Folder, storage: Storage, name: str) -> LoggedPieces:
    """What stands in the folder `name` of a log. `storage`: that of the log's folder. Raises RECORD_CORRUPT."""
    pieces = storage.below(name)
    nothing = IngestPosition(id_of(name), 0, 0)
    begins = begins_in(pieces.list(""))
    newest = piece_name(begins[-1]) if begins else ""
    data = pieces.read(newest) if begins else None
    if data is None:  # if it was there, another process has removed it meanwhile, and the log with it
        return LoggedPieces(folder / name, nothing, [nothing])
    piece = decode_piece(data, newest, pieces.where(newest))
    return LoggedPieces(folder / name, piece.kept_from, [*begins, piece.end])


def standing_log(folder: Folder) -> LoggedPieces | None:
    """What stands in the folder of a log; None if there is no log."""
    storage = open_storage(folder)
    name = name_of_log(storage)
    return None if name is None else standing_in(folder, storage, name)


def name_of_log(storage: Storage) -> str | None:
    """The name of the folder with the pieces. `storage`: that of the log's folder."""
    data = storage.read(LOG)
    if data is None:
        return None
    if not _NAME.fullmatch(data):
        raise altered("the name of an ingest log", f"{len(data)} other bytes", storage.where(LOG))
    return data.decode()


def id_of(name: str) -> str:
    """The id of the log in a folder of this name."""
    return name.partition("-")[0]


def offset_of(position: IngestPosition) -> int:
    """For searches in places."""
    return position.offset


_NAME = re.compile(rb"[0-9a-f]{8}(-g[1-9][0-9]*)?")
