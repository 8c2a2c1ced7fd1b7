"""The ingest log of a restored generation, in a job that is not on a local disk (`ingest_join` says what is in it).

    ingest/<uid>/<id>-g<G>/   the pieces of the log of generation G
    ingest/<uid>/log.g<G>     the name of that folder; *new.g<G>* in a job that begins with the restore
    ingest/<uid>/since.g<G>   the same, when generation G counts

Records name the folders, because none can be renamed. A process that was paused may resume at any time:

* A driver of an older generation adds no row to a log that is replaced. *log.g<G>* is put first, so a process that
  opens the log later appends nothing. Then the restore opens the log itself: what was confirmed before is in it, and a
  process that had it open is stopped at its next append. If rows have come since the restore was judged, it ends.
* When generation G counts, *owner* gets another token once more. So a process that opened the log in between is stopped
  before *log.g<G>* is removed; one that opens it later finds that its own generation does not count any more.
* *since.g<G>* is put if absent, and does not count beside one of a later generation.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidegate.checkpoints.ingest_frames import Payload, encode_frame
from tidegate.checkpoints.ingest_layout import INGEST, IngestPosition
from tidegate.checkpoints.ingest_piece import TOKEN_BYTES, PieceSlice, encode_piece, piece_name
from tidegate.checkpoints.ingest_pieces import PieceLog
from tidegate.checkpoints.ingest_standing import (
    OWNER,
    LoggedPieces,
    prepared_logs,
    prepared_record,
    remove_prepared,
    remove_unnamed,
    since_record,
    standing_log,
)
from tidegate.checkpoints.succession import give_up
from tidegate.core.errors import Code, TidegateError
from tidegate.savepoints.ingest_join import JoinedLog, SavedLog, joined_log
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Storage


def join_elsewhere(source: str, ingest: Folder, saved: SavedLog | None, where: str) -> JoinedLog:
    """`joined_log` for a job that is not on a disk. `ingest` has the job's logs."""
    return joined_log(source, _LogsInPieces(ingest), saved, where)


def prepare_logs_elsewhere(
    job_folder: Folder, generation: int, logs: Sequence[JoinedLog], *, replaces: bool = True
) -> None:
    """Put the logs of a new generation where nothing reads them. Only with the job's lease held, and the number of the
    generation reserved. `replaces`: False for a job that begins with the restore.

    Raises GENERATION_SEALED if rows have come to a log since it was judged.
    """
    ingest, moved = job_folder / INGEST, [each for each in logs if not each.is_in_place]
    names = {uid: f"{secrets.token_hex(4)}-g{generation}" for each in moved for uid in each.replaced}
    names |= {each.source: f"{each.begin.log}-g{generation}" for each in moved}
    for uid, name in names.items():
        open_storage(ingest / uid).put_if_absent(prepared_record(generation, replaces=replaces), name.encode())
    for each in moved if replaces else ():
        for uid, end in each.replaced.items():
            _end_appends(ingest / uid, end)
    for each in moved:
        _write(open_storage(ingest / each.source).below(names[each.source]), each)


def settle_logs_elsewhere(job_folder: Folder, generation: int) -> None:
    """Let the logs of this generation count, and forget those that were prepared for generations that never count. Only
    with the job's lease held, and before anything opens a log.
    """
    job, ingest = open_storage(job_folder), open_storage(job_folder / INGEST)
    for uid in ingest.folders(""):
        log = ingest.below(uid)
        for number, name in prepared_logs(log).items():
            if number == generation:
                log.put_if_absent(since_record(number), name.encode())
                log.replace(OWNER, secrets.token_bytes(TOKEN_BYTES))
            if number <= generation or give_up(job, number):
                remove_prepared(log, number)
                remove_unnamed(log)


@dataclass(frozen=True, slots=True)
class _LogInPieces:
    uid: str
    ingest: Folder
    standing: LoggedPieces

    @property
    def begin(self) -> IngestPosition:
        return self.standing.begin

    @property
    def end(self) -> IngestPosition:
        return self.standing.end

    @property
    def remove(self) -> str:
        return f"remove {self.ingest / self.uid}"

    def parts(self, begin: IngestPosition, end: IngestPosition, where: str) -> list[PieceSlice]:
        return self.standing.parts(begin, end, where)

    def blocks(self, begin: int, end: int, where: str) -> Iterator[tuple[int, bytes]]:
        for part in self.standing.parts_around(begin, end, where):
            for frame in part.all_frames():
                at, until = max(begin, frame.begin.offset), min(end, frame.end.offset)
                if at < until:
                    yield at, frame.data()[at - frame.begin.offset : until - frame.begin.offset]


@dataclass(frozen=True, slots=True)
class _LogsInPieces:
    ingest: Folder

    def under(self, uid: str) -> _LogInPieces | None:
        found = standing_log(self.ingest / uid)
        return None if found is None else _LogInPieces(uid, self.ingest, found)

    def of(self, log: str) -> _LogInPieces | None:
        found = map(self.under, open_storage(self.ingest).folders(""))
        return next((each for each in found if each is not None and each.begin.log == log), None)


def _end_appends(folder: Folder, end: int) -> None:
    """No process that has opened this log appends to it any more. `end`: behind the newest row when it was judged."""
    log = PieceLog(folder)
    log.close()
    if log.end.offset != end:
        raise TidegateError(
            Code.GENERATION_SEALED,
            expected=f"to continue a log that ends at byte {end}, as it was judged",
            found=f"{log.end}: a driver that was paused has added rows since",
            where=str(folder),
        )


def _write(pieces: Storage, joined: JoinedLog) -> None:
    """The pieces of a log. One without rows says where it begins."""
    token = secrets.token_bytes(TOKEN_BYTES)
    for part in joined.parts:
        frames = b"".join(frame.data() for frame in part.all_frames())
        pieces.put_if_absent(piece_name(part.begin), encode_piece(token, joined.begin, frames))
    if not joined.parts:
        nothing, _ = encode_frame(joined.begin, Payload(0, b""))
        pieces.put_if_absent(piece_name(joined.begin), encode_piece(token, joined.begin, nothing))
