"""The ingest log of a restored generation, in a job that is not on a local disk.

    ingest/<uid>/<id>-g<G>/   the pieces of the log of generation G
    ingest/<uid>/log.g<G>     the name of that folder; it becomes the record *log* when *job.json* names generation G

A job that goes back in its own folder keeps its log, as on a disk. A job without a log begins with the part in the
savepoint. Two logs are never joined here.
"""

from __future__ import annotations

import secrets
from itertools import chain, zip_longest

from tidegate.checkpoints.ingest_layout import INGEST, lines_lost
from tidegate.checkpoints.ingest_piece import TOKEN_BYTES, encode_piece, piece_name
from tidegate.checkpoints.ingest_read import read_slice
from tidegate.checkpoints.ingest_standing import LOG, OWNER, LoggedPieces, prepared_log, prepared_logs, standing_log
from tidegate.checkpoints.succession import give_up
from tidegate.core.errors import TidegateError
from tidegate.savepoints.ingest_restore import JoinedLog, LogOnDisk, SavedLog, fresh_log, saved_part
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder


def join_elsewhere(source: str, ingest: Folder, saved: SavedLog | None, where: str) -> JoinedLog:
    """The log from which a source of a restored job resumes. Only reads. `ingest` has the job's logs. `saved` is None
    if the source resumes from no saved position.

    Raises INGEST_LOST if the job's log is a different log, or does not hold all lines of the savepoint.
    """
    mine = standing_log(ingest / source)
    if saved is None:
        return fresh_log(source) if mine is None else _in_place(source, mine)
    part = saved_part(saved, where)
    if mine is None or mine.end.offset == 0:
        _check_no_other_uid(source, ingest, part, saved, where)
        return JoinedLog(source, part.begin, part.end, tuple(part.slices(part.begin, part.end, where)))
    if mine.begin.log != part.begin.log or not saved.is_ours:
        raise _refused(f"log {part.begin.log} of the savepoint's job", f"another job's, {mine.begin}", mine, where)
    if part.begin.offset < mine.begin.offset or mine.end.offset < part.end.offset:
        found = f"a log from {mine.begin} to {mine.end}"
        raise _refused(f"the lines of the savepoint, from {part.begin} to {part.end}", found, mine, where)
    if not _are_same(mine, part, where):
        found = "others: the job has run in another folder since"
        raise _refused(f"the lines of the savepoint behind {part.begin}", found, mine, where)
    return _in_place(source, mine)


def prepare_log_elsewhere(job_folder: Folder, generation: int, joined: JoinedLog) -> None:
    """Put the log of a new generation where nothing reads it. Only with the job's lease held, and the number of the
    generation reserved.
    """
    if joined.is_in_place:
        return
    storage = open_storage(job_folder / INGEST / joined.source)
    token, name = secrets.token_bytes(TOKEN_BYTES), f"{joined.begin.log}-g{generation}"
    storage.replace(OWNER, token)  # a process that was paused removes nothing of it
    for piece in joined.pieces:
        frames = b"".join(frame.data() for frame in read_slice(piece))
        storage.put_if_absent(f"{name}/{piece_name(piece.begin)}", encode_piece(token, joined.begin, frames))
    storage.put_if_absent(prepared_log(generation), name.encode())


def settle_logs_elsewhere(job_folder: Folder, generation: int) -> None:
    """Let the logs of this generation count, and forget those that were prepared for generations that never count: the
    next opening of the log removes their pieces. Only with the job's lease held, and before anything opens a log.
    """
    job, ingest = open_storage(job_folder), open_storage(job_folder / INGEST)
    for uid in ingest.folders(""):
        log = ingest.below(uid)
        for number, name in prepared_logs(log).items():
            if number == generation:
                log.replace(LOG, name.encode())
            if number <= generation or give_up(job, number):
                log.delete(prepared_log(number))


def _in_place(source: str, mine: LoggedPieces) -> JoinedLog:
    return JoinedLog(source, mine.begin, mine.end, (), is_in_place=True)


def _check_no_other_uid(source: str, ingest: Folder, part: LogOnDisk, saved: SavedLog, where: str) -> None:
    """Raise INGEST_LOST if the source has another uid since: its newer lines are under the older one."""
    for uid in open_storage(ingest).folders("") if saved.is_ours else ():
        other = None if uid == source else standing_log(ingest / uid)
        if other is not None and other.begin.log == part.begin.log:
            raise _refused(f"the log of source {uid} under the uid of the program", "none", other, where)


def _are_same(mine: LoggedPieces, part: LogOnDisk, where: str) -> bool:
    """Compare all frames of the savepoint with the same range of the job's log."""
    saved = chain.from_iterable(map(read_slice, part.slices(part.begin, part.end, where)))
    pieces = mine.parts(part.begin, part.end, where)
    own = chain.from_iterable(each.all_frames() for each in pieces)
    return all(one == other for one, other in zip_longest(saved, own))


def _refused(expected: str, found: str, mine: LoggedPieces, where: str) -> TidegateError:
    next_step = (
        "restore under another job name or checkpointing.dir; or give the lines in this log up: remove"
        f" {mine.folder.parent}"
    )
    return lines_lost(expected, found, f"{where}, {mine.folder}", next_step)
