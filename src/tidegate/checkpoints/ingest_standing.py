"""What stands in the folder of an ingest log in pieces, as any process sees it.

log              the name of the folder with the pieces of the log, which is its id
log.g<G>         the name of the folder that a restore prepares: `<id>-g<G>`. It replaces the log of an older generation
new.g<G>         the same of a restore that begins a job: there is no older generation
since.g<G>       the name of the log since generation G, which counts: the one with the highest G is the log
after.<name>     the name of the log that follows one whose job was forgotten: `<id>-<job id>`, of the forgotten job
owner            the token of the process that opened the log last
<id>/            the pieces (`ingest_piece`); a folder that these do not name is of a log that was given up

A process that restores or forgets a job may be paused, and resume when a later generation or the next job of this name
has a log. So it changes no record that is there: it puts *since.g<G>*, which does not count beside a higher one, or
*after.<name>*, and removes the folder of that name, which no later log has. A folder is named before it has a piece.

While *log.g<G>* is there, no other process appends to the log: its rows would not be in the log of generation G.
"""

from __future__ import annotations

import re
import secrets
from bisect import bisect_left, bisect_right
from collections.abc import Container, Sequence
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

    def parts_around(self, begin: int, end: int, where: str) -> list[PieceSlice]:
        """The rows of all pieces with bytes between two offsets, from the begin of the first piece."""
        if begin >= end:
            return []
        first = max(bisect_right(self.places, begin, key=offset_of) - 1, 0)
        last = min(bisect_left(self.places, end, key=offset_of), len(self.places) - 1)
        return self.parts(self.places[first], self.places[last], where)


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
    newest = max(_generations_in(storage, _SINCE), default=0)
    name = _name_in(storage, since_record(newest) if newest else LOG)
    while name is not None and (following := _name_in(storage, _after(name))) is not None:
        name = following
    return name


def count_prepared(storage: Storage, generations: Container[int]) -> None:
    """Let the logs that are prepared for these generations of a forgotten job count, so that the newest one is given up
    with it. Else a restore that was paused lets its log count in the next job. `storage`: that of the log's folder.
    """
    for generation, name in sorted(prepared_logs(storage).items()):
        if generation in generations:
            storage.put_if_absent(since_record(generation), name.encode())
            remove_prepared(storage, generation)


def give_up_log(storage: Storage, name: str, job_id: str) -> None:
    """Remove the pieces of the log `name` of a job that is forgotten, and let another one follow it, once. `storage`:
    that of the log's folder.
    """
    if not name.endswith(f"-{job_id}"):  # else it follows already, and may be the next job's by now
        storage.clear(name)
        storage.put_if_absent(_after(name), f"{secrets.token_hex(4)}-{job_id}".encode())


def remove_unnamed(storage: Storage) -> None:
    """Remove logs that were given up, and what came too late into one. `storage`: that of the log's folder. Safe at any
    time, and beside any process: a folder is named before it has a piece, and is named no more when it never counts.
    """
    found = storage.folders("")
    kept = {*prepared_logs(storage).values(), name_of_log(storage)}  # in this order: one takes the place of the other
    for name in found:
        if name not in kept:
            storage.clear(name)


def prepared_record(generation: int, *, replaces: bool) -> str:
    """The record that names the log of a generation which does not count yet. `replaces`: it is to take the place of
    the log of an older generation.
    """
    return f"{_REPLACING if replaces else _NEW}{generation}"


def since_record(generation: int) -> str:
    """The record that names the log since this generation."""
    return f"{_SINCE}{generation}"


def remove_prepared(storage: Storage, generation: int) -> None:
    """The generation counts, or never will. `storage`: that of the log's folder."""
    for replaces in (True, False):
        storage.delete(prepared_record(generation, replaces=replaces))


def prepared_logs(storage: Storage) -> dict[int, str]:
    """The names of the logs that are prepared, by generation. `storage`: that of the log's folder."""
    named = {
        generation: _name_in(storage, f"{kind}{generation}")
        for kind in (_REPLACING, _NEW)
        for generation in _generations_in(storage, kind)
    }
    return {generation: name for generation, name in named.items() if name is not None}


def is_being_replaced(storage: Storage) -> bool:
    """True if a generation is prepared whose log is to take the place of this one. `storage`: that of the log's
    folder.
    """
    return bool(_generations_in(storage, _REPLACING))


def _generations_in(storage: Storage, kind: str) -> list[int]:
    """The generations of the records of this kind."""
    numbers = (name.removeprefix(kind) for name in storage.list("") if name.startswith(kind))
    return [int(number) for number in numbers if number.isdigit()]


def _name_in(storage: Storage, record: str) -> str | None:
    data = storage.read(record)
    if data is None:
        return None
    if not _NAME.fullmatch(data):
        raise altered("the name of an ingest log", f"{len(data)} other bytes", storage.where(record))
    return data.decode()


def _after(name: str) -> str:
    return f"after.{name}"


def id_of(name: str) -> str:
    """The id of the log in a folder of this name."""
    return name.partition("-")[0]


def offset_of(position: IngestPosition) -> int:
    """For searches in places."""
    return position.offset


_REPLACING, _NEW, _SINCE = f"{LOG}.g", "new.g", "since.g"
_NAME = re.compile(rb"[0-9a-f]{8}(-g[1-9][0-9]*|-[0-9a-f]+)?")
