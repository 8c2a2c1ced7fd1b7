"""The part of an ingest log after a position, in segments of its own, for a savepoint.

A frame may begin a segment anywhere, because it is checked against its own place in the log. So the first segment is
cut at the end of the saved epoch, and the last one at the end of the log. The segments between them are linked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from tidegate.checkpoints.ingest_layout import (
    IngestPosition,
    lines_lost,
    position_in,
    segment_name,
    segments,
    synced_end,
    unbroken,
)
from tidegate.checkpoints.ingest_log import LogPart
from tidegate.checkpoints.ingest_read import Slice, require, require_between, slices
from tidegate.checkpoints.ingest_segments import LOCK, whole_end
from tidegate.checkpoints.ingest_standing import standing_log
from tidegate.core.records import DoneEpoch
from tidegate.core.spark_log import positions_of
from tidegate.disk import flocks
from tidegate.disk.durable import sync_file
from tidegate.disk.linking import linked
from tidegate.storages.schemes import Folder


def needed_from(epochs: Iterable[DoneEpoch]) -> dict[str, IngestPosition]:
    """For each source with an ingest log, the end of the first of these epochs: the lines after it are needed."""
    found: dict[str, IngestPosition] = {}
    for done in epochs:
        for uid, text in positions_of(done.sources, done.offsets):
            position = position_in(text)
            if position is not None and (uid not in found or position.offset < found[uid].offset):
                found[uid] = position
    return found


def link_logs(ingest: Folder, aside: Path) -> None:
    """Link every segment of a job's logs below `aside`. From here on a trim of the logs does not remove the lines. A
    log in pieces has no segments, and nothing is linked.
    """
    folder = ingest.local() if ingest.is_local else None
    for log in folder.iterdir() if folder is not None and folder.is_dir() else ():
        _link_segments(log, aside / log.name)


def bring_parts(
    ingest: Folder,
    epochs: Iterable[DoneEpoch],
    into: Path,
    aside: Path | None = None,
    go_on: Callable[[], None] = lambda: None,
) -> None:
    """Write the parts of a job's logs after these epochs below `into`, as segments. `aside`: the folder of `link_logs`,
    if the job runs. `go_on` is called before each segment, and may raise to cancel. Nothing is synced.

    Raises INGEST_LOST if a log does not have the lines, RECORD_CORRUPT if they are altered.
    """
    for uid, begin in needed_from(epochs).items():
        where = f"source {uid}"
        if not ingest.is_local:
            bring_part_from(ingest / uid, begin, into / uid, where, go_on)
            continue
        log = ingest.local() / uid
        end = log_end(log, where)
        if aside is not None:
            _link_segments(log, aside / uid)
            log = aside / uid
        require(log, begin, end, where)
        bring(slices(log, begin, end, where), begin, into / uid, go_on=go_on)


def bring_part_from(
    log: Folder, begin: IngestPosition, into: Path, where: str, go_on: Callable[[], None] = lambda: None
) -> None:
    """Write the part of one log in pieces after `begin` as segments into the new folder `into`. Nothing holds the
    pieces: the process that trims the log is this one, and does not do so meanwhile. If it has lost the log to another
    process, which may trim it, this raises INGEST_LOST.
    """
    found = standing_log(log)
    if found is None:
        raise lines_lost("the pieces of an ingest log", "none", f"{where}, {log}")
    require_between(found.begin, found.end, begin, f"{where}, {log}")
    bring(found.parts(begin, found.end, where), begin, into, go_on=go_on)


def log_end(log: Path, where: str) -> IngestPosition:
    """The position after the last line that counts, in a log that another process or thread may append to. If no
    process appends, this syncs the lines that a killed process wrote; then these count.
    """
    if flocks.is_taken(log / LOCK):  # also by this process
        return synced_end(log, where)
    found = unbroken(segments(log))
    if not found:
        raise lines_lost("the segments of an ingest log", "none", f"{where}, {log}")
    with found[-1].path.open("rb") as file:
        sync_file(file.fileno())
    return whole_end(found[-1])[0]


def bring(
    parts: Sequence[LogPart],
    begin: IngestPosition,
    into: Path,
    may_link: Callable[[Slice], bool] = lambda _: True,
    go_on: Callable[[], None] = lambda: None,
) -> None:
    """Write segments of these consecutive parts of a log, from `begin`; an empty segment if there are none. A whole
    file is linked if `may_link` allows it and the disk supports it. The last one is never linked, because a log is
    appended to.
    """
    into.mkdir(parents=True)
    for part in parts:
        go_on()
        target = into / segment_name(part.begin)
        if not (isinstance(part, Slice) and part is not parts[-1] and may_link(part) and _linked(part, target)):
            with target.open("xb") as file:
                file.writelines(frame.data() for frame in part.all_frames())
    if not parts:
        (into / segment_name(begin)).touch()


def _link_segments(log: Path, into: Path) -> None:
    into.mkdir(parents=True, exist_ok=True)
    for segment in segments(log):
        with suppress(FileNotFoundError, FileExistsError):  # trimmed in the meantime, or linked before
            os.link(segment.path, into / segment.path.name)


def _linked(part: Slice, target: Path) -> bool:
    """Link the whole file of a part, whose frames are read first. False if it is no whole file, or cannot be linked."""
    begin, size = part.segment.begin.offset, part.segment.path.stat().st_size
    if (part.begin.offset, part.end) != (begin, begin + size):
        return False
    for _ in part.all_frames():
        pass  # it raises at a broken frame
    return linked(part.segment.path, target)
