"""The ingest log from which a source of a restored job resumes: the part in the savepoint, and the job's own log.

A job that goes back in its own folder keeps its log with the newer lines, and the new generation computes these once.
In another folder the log begins with the part in the savepoint. A job that has run in another folder since, and comes
back, continues its own log with the newer lines of the savepoint.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from tidegate.checkpoints.ingest_layout import IngestPosition, lines_lost, segments, unbroken
from tidegate.checkpoints.ingest_log import LogPart
from tidegate.checkpoints.ingest_read import Slice, slices
from tidegate.checkpoints.ingest_segments import whole_end
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
    """The future log of one source: its begin and end, and its parts.

    `is_in_place`: the job's own log already is that log. `replaced`: the logs of the job that it replaces, by uid, with
    the offset behind their newest line; 0 for a log without lines, and for none. `gives_up`: another log with lines
    that stands under the uid of this source.
    """

    source: str
    begin: IngestPosition
    end: IngestPosition
    parts: tuple[LogPart, ...]
    is_in_place: bool = False
    replaced: Mapping[str, int] = field(default_factory=dict[str, int])
    gives_up: OwnLog | None = None


class OwnLog(Protocol):
    """A log of the job that is restored."""

    @property
    def uid(self) -> str:
        """The source that the log belongs to."""
        ...

    @property
    def begin(self) -> IngestPosition: ...

    @property
    def end(self) -> IngestPosition:
        """The position behind the newest line."""
        ...

    @property
    def remove(self) -> str:
        """How a user removes the log."""
        ...

    def parts(self, begin: IngestPosition, end: IngestPosition, where: str) -> Sequence[LogPart]:
        """The lines between two positions; none if `begin` is not before `end`."""
        ...

    def blocks(self, begin: int, end: int, where: str) -> Iterator[tuple[int, bytes]]:
        """The bytes between two offsets, which need not be those of frames: each block with its offset."""
        ...


class OwnLogs(Protocol):
    """The logs of the job that is restored."""

    def under(self, uid: str) -> OwnLog | None:
        """The log of this source; None if there is none."""
        ...

    def of(self, log: str) -> OwnLog | None:
        """The log with this id, under whatever uid its source had; None if there is none."""
        ...


def joined_log(source: str, logs: OwnLogs, saved: SavedLog | None, where: str) -> JoinedLog:
    """The log from which a source of a restored job resumes. Only reads. `saved` is None if the source resumes from no
    saved position.

    Raises INGEST_LOST if lines between the two are missing, and if the job's log is a different log.
    """
    own = logs.under(source)
    if saved is None:
        return fresh_log(source) if own is None else _in_place(own)
    part = saved_part(saved, where)
    mine = logs.of(part.begin.log) or own  # its source may have had another uid since
    replaced = {source: 0, **{each.uid: each.end.offset for each in (own, mine) if each is not None}}
    other = None if own is None or mine is None or own.begin.log == mine.begin.log or _is_unbegun(own) else own
    joins = partial(JoinedLog, source, replaced=replaced, gives_up=other)
    from_savepoint = tuple(part.parts(part.begin, part.end, where))
    if mine is None or _is_unbegun(mine):
        return joins(part.begin, part.end, from_savepoint)
    _check_one_past(mine, part, saved, where)
    if part.begin.offset > mine.end.offset:  # the job has run in another folder since, and comes back
        return joins(part.begin, part.end, from_savepoint)
    if mine.uid == source and mine.begin.offset <= part.begin.offset and part.end.offset <= mine.end.offset:
        return _in_place(mine)
    parts = (
        *part.parts(part.begin, mine.begin, where),
        *mine.parts(mine.begin, mine.end, where),
        *part.parts(mine.end, part.end, where),
    )
    begin, end = min(mine.begin, part.begin, key=_offset), max(mine.end, part.end, key=_offset)
    return joins(begin, end, parts)


def demand_no_line_given_up(logs: Sequence[JoinedLog], where: str) -> None:
    """Raise INGEST_LOST if a log with lines gives way to that of another source, and no source of the program has it
    from then on.
    """
    kept = {each.begin.log for each in logs}
    for each in logs:
        if (other := each.gives_up) is not None and other.begin.log not in kept:
            raise lines_lost(
                f"no lines under the uid {each.source}, whose source takes the log {each.begin.log} over",
                f"another log, {other.begin}, with lines until {other.end}",
                f"{where}, the log of source {other.uid}",
                f"name its source in the program (--map); or give the lines in this log up: {other.remove}",
            )


def fresh_log(source: str) -> JoinedLog:
    """A new log without lines."""
    begin = IngestPosition(secrets.token_hex(4), 0, 0)
    return JoinedLog(source, begin, begin, (), replaced={source: 0})


@dataclass(frozen=True, slots=True)
class LogOnDisk:
    """A log on this disk, from its oldest line to its end."""

    folder: Path
    begin: IngestPosition
    end: IngestPosition

    @property
    def uid(self) -> str:
        return self.folder.name

    @property
    def remove(self) -> str:
        return f"rm -r {self.folder}"

    def parts(self, begin: IngestPosition, end: IngestPosition, where: str) -> list[Slice]:
        return slices(self.folder, begin, end, where) if begin.offset < end.offset else []

    def blocks(self, begin: int, end: int, where: str) -> Iterator[tuple[int, bytes]]:
        for at in range(begin, end, _BLOCK_BYTES):
            yield at, self.bytes_between(at, min(at + _BLOCK_BYTES, end), where)

    def bytes_between(self, begin: int, end: int, where: str) -> bytes:
        """The bytes between two offsets, at any place in a frame."""
        found: list[bytes] = []
        first, last = (IngestPosition(self.begin.log, each, 0) for each in (begin, end))
        for piece in self.parts(first, last, where):
            with piece.segment.path.open("rb") as file:
                file.seek(piece.begin.offset - piece.segment.begin.offset)
                found.append(file.read(piece.end - piece.begin.offset))
        return b"".join(found)


def log_in(folder: Path) -> LogOnDisk | None:
    """The log in a folder of this disk; None if there is none."""
    found = unbroken(segments(folder))
    return LogOnDisk(folder, found[0].begin, whole_end(found[-1])[0]) if found else None


def saved_part(saved: SavedLog, where: str) -> LogOnDisk:
    """The part of a log in a savepoint. Raises INGEST_LOST if there is none."""
    part = log_in(saved.folder)
    if part is None:
        raise lines_lost("the part of an ingest log", "no segments", f"{where}, {saved.folder}", COPY_AGAIN)
    return part


def _in_place(mine: OwnLog) -> JoinedLog:
    return JoinedLog(mine.uid, mine.begin, mine.end, (), is_in_place=True)


def _is_unbegun(log: OwnLog) -> bool:
    return log.end.offset == 0


def _check_one_past(mine: OwnLog, part: LogOnDisk, saved: SavedLog, where: str) -> None:
    """Raise INGEST_LOST unless the job's log (`mine`) and the log of the savepoint (`part`) have the same past.

    That is the same log id, the same bytes in the range that both have, and no missing lines between the end of `part`
    and the oldest line of `mine`.
    """
    place = f"{where}, the log of source {mine.uid}"
    other = f"restore under another job name or checkpointing.dir; or give the lines in this log up: {mine.remove}"
    if mine.begin.log != part.begin.log or not saved.is_ours:
        raise lines_lost(f"log {part.begin.log} of the savepoint's job", f"another job's, {mine.begin}", place, other)
    if part.end.offset < mine.begin.offset:
        raise lines_lost(f"the lines from {part.end} on", f"the oldest line that is kept: {mine.begin}", place, other)
    begin, end = max(mine.begin, part.begin, key=_offset), min(mine.end, part.end, key=_offset)
    for at, block in mine.blocks(begin.offset, end.offset, where):
        if block != part.bytes_between(at, at + len(block), where):
            raise lines_lost(
                f"the lines of the savepoint behind {begin}",
                "others: the job has run in another folder since",
                place,
                other,
            )


def _offset(position: IngestPosition) -> int:
    return position.offset


_BLOCK_BYTES = 1 << 20
