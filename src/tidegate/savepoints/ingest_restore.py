"""The ingest log of a restored generation: the part in the savepoint, and the job's own log.

    ingest/.<uid>.restored-g<G>   the log of generation G, assembled under a hidden name
    ingest/<uid>                  the log; the hidden folder takes its place when *job.json* names generation G

A job that goes back in its own folder keeps its log with the newer lines, and the new generation computes these once.
In another folder the log begins with the part in the savepoint.
"""

from __future__ import annotations

import os
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tidegate.checkpoints.ingest_layout import INGEST, IngestPosition, lines_lost, segments, unbroken
from tidegate.checkpoints.ingest_part import bring
from tidegate.checkpoints.ingest_read import Slice, slices
from tidegate.checkpoints.ingest_segments import whole_end
from tidegate.disk.durable import ensure_folder, remove_folder, sync_file, sync_folder
from tidegate.savepoints.refusals import COPY_AGAIN


@dataclass(frozen=True, slots=True)
class SavedLog:
    """The part of an ingest log in a savepoint. `is_ours`: the job has taken the savepoint, or was opened from it, so
    both logs share one past.
    """

    folder: Path
    is_ours: bool


@dataclass(frozen=True, slots=True)
class JoinedLog:
    """The future log of one source: its begin and end, and its slices of files.

    `is_in_place`: the job's own log already is that log.
    """

    source: str
    begin: IngestPosition
    end: IngestPosition
    pieces: tuple[Slice, ...]
    is_in_place: bool = False


@dataclass(frozen=True, slots=True)
class LogOnDisk:
    """A log on this disk, from its oldest line to its end."""

    folder: Path
    begin: IngestPosition
    end: IngestPosition

    def slices(self, begin: IngestPosition, end: IngestPosition, where: str) -> list[Slice]:
        return slices(self.folder, begin, end, where) if begin.offset < end.offset else []


def join(source: str, ingest: Path, saved: SavedLog | None, where: str) -> JoinedLog:
    """The log from which a source of a restored job resumes. Only reads. `ingest` has the job's logs; no process
    appends to them. `saved` is None if the source resumes from no saved position.

    Raises INGEST_LOST if lines between the two are missing, and if the job's log is a different log.
    """
    if saved is None:
        mine = _part(ingest / source)
        return fresh_log(source) if mine is None else _in_place(source, mine)
    part = saved_part(saved, where)
    same = _folders_of(part.begin.log, ingest)  # its source may have had another uid since
    mine = _part(same[0] if same else ingest / source)
    if mine is None or _is_unbegun(mine):
        return JoinedLog(source, part.begin, part.end, tuple(part.slices(part.begin, part.end, where)))
    _check_one_past(mine, part, saved, where)
    if part.begin.offset > mine.end.offset:  # the job has run in another folder since, and comes back
        return JoinedLog(source, part.begin, part.end, tuple(part.slices(part.begin, part.end, where)))
    if mine.folder.name == source and mine.begin.offset <= part.begin.offset and part.end.offset <= mine.end.offset:
        return _in_place(source, mine)
    begin = min(mine.begin, part.begin, key=_offset)
    end = max(mine.end, part.end, key=_offset)
    pieces = [
        *part.slices(part.begin, mine.begin, where),
        *mine.slices(mine.begin, mine.end, where),
        *part.slices(mine.end, part.end, where),
    ]
    return JoinedLog(source, begin, end, tuple(pieces))


def saved_part(saved: SavedLog, where: str) -> LogOnDisk:
    """The part of a log in a savepoint. Raises INGEST_LOST if there is none."""
    part = _part(saved.folder)
    if part is None:
        raise lines_lost("the part of an ingest log", "no segments", f"{where}, {saved.folder}", COPY_AGAIN)
    return part


def prepare_log(job_folder: Path, generation: int, joined: JoinedLog) -> None:
    """Assemble the log of a new generation, hidden and durable. Only with the job's locks held."""
    if joined.is_in_place:
        return
    own = job_folder / INGEST / joined.source
    ensure_folder(own.parent)
    hidden = own.with_name(f".{joined.source}{_RESTORED}{generation}")
    remove_folder(hidden)
    bring(joined.pieces, joined.begin, hidden, lambda piece: own.parent in piece.segment.path.parents)
    for path in hidden.iterdir():
        with path.open("rb") as file:
            sync_file(file.fileno())
    sync_folder(hidden)
    sync_folder(own.parent)


def settle_logs(job_folder: Path, generation: int) -> None:
    """Move the log of this generation to its place, and remove logs that were prepared for others. Only with the job's
    locks held, and before anything opens a log.
    """
    ingest = job_folder / INGEST
    with suppress(FileNotFoundError):
        for name in os.listdir(ingest):
            found = _HIDDEN.fullmatch(name)
            if found is not None and int(found[2]) == generation:
                for log in {segment.begin.log for segment in segments(ingest / name)}:
                    for folder in (*_folders_of(log, ingest), ingest / found[1]):
                        remove_folder(folder)  # the hidden folder holds everything that is needed of it
                os.rename(ingest / name, ingest / found[1])
                sync_folder(ingest)
            elif name.startswith("."):
                remove_folder(ingest / name)
        if not os.listdir(ingest):
            ingest.rmdir()


def _folders_of(log: str, ingest: Path) -> list[Path]:
    """The folders in `ingest` that contain the log with the id `log`: one, or none."""
    folders = sorted(path for path in ingest.glob("[!.]*") if path.is_dir())
    return [path for path in folders if any(segment.begin.log == log for segment in segments(path))]


def _part(folder: Path) -> LogOnDisk | None:
    found = unbroken(segments(folder))
    return LogOnDisk(folder, found[0].begin, whole_end(found[-1])[0]) if found else None


def fresh_log(source: str) -> JoinedLog:
    """A new log without lines."""
    begin = IngestPosition(secrets.token_hex(4), 0, 0)
    return JoinedLog(source, begin, begin, ())


def _in_place(source: str, mine: LogOnDisk) -> JoinedLog:
    return JoinedLog(source, mine.begin, mine.end, (), is_in_place=True)


def _is_unbegun(log: LogOnDisk) -> bool:
    return log.end.offset == 0


def _check_one_past(mine: LogOnDisk, part: LogOnDisk, saved: SavedLog, where: str) -> None:
    """Raise INGEST_LOST unless the job's log (`mine`) and the log of the savepoint (`part`) have the same past.

    That is the same log id, the same bytes in the range that both have, and no missing lines between the end of `part`
    and the oldest line of `mine`.
    """
    place = f"{where}, {mine.folder}"
    other = (
        f"restore under another job name or checkpointing.dir; or give the lines in this log up: rm -r {mine.folder}"
    )
    if mine.begin.log != part.begin.log or not saved.is_ours:
        raise lines_lost(f"log {part.begin.log} of the savepoint's job", f"another job's, {mine.begin}", place, other)
    if part.end.offset < mine.begin.offset:
        raise lines_lost(f"the lines from {part.end} on", f"the oldest line that is kept: {mine.begin}", place, other)
    begin, end = max(mine.begin, part.begin, key=_offset), min(mine.end, part.end, key=_offset)
    for at in range(begin.offset, end.offset, _BLOCK_BYTES):
        until = min(at + _BLOCK_BYTES, end.offset)
        if _bytes(mine, at, until, where) != _bytes(part, at, until, where):
            raise lines_lost(
                f"the lines of the savepoint behind {begin}",
                "others: the job has run in another folder since",
                place,
                other,
            )


def _bytes(log: LogOnDisk, begin: int, end: int, where: str) -> bytes:
    """The bytes of a log between two offsets, at any place in a frame."""
    found: list[bytes] = []
    for piece in log.slices(IngestPosition(log.begin.log, begin, 0), IngestPosition(log.begin.log, end, 0), where):
        with piece.segment.path.open("rb") as file:
            file.seek(piece.begin.offset - piece.segment.begin.offset)
            found.append(file.read(piece.end - piece.begin.offset))
    return b"".join(found)


def _offset(position: IngestPosition) -> int:
    return position.offset


_BLOCK_BYTES = 1 << 20
_RESTORED = ".restored-g"
_HIDDEN = re.compile(rf"\.(.+){re.escape(_RESTORED)}([1-9][0-9]*)")
