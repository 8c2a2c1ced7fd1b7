"""An ingest log on a local disk: segments that are appended to and synced.

Other processes read the synced lines (`ingest_read`). Lines that no checkpoint needs are trimmed, in whole segments.
"""

from __future__ import annotations

import errno
import os
import secrets
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tidegate.checkpoints.ingest_frames import Frame, Payload, encode_frame, frame_behind, whole_frames
from tidegate.checkpoints.ingest_layout import (
    MARK,
    IngestPosition,
    Segment,
    altered,
    segment_name,
    segments,
    unbroken,
    write_mark,
)
from tidegate.checkpoints.ingest_read import Slice, require, slices
from tidegate.disk import flocks
from tidegate.disk.durable import SyncFailed, Trust, ensure_folder, rewrite, sync_file, sync_folder
from tidegate.storages.refusals import lock_held

SEGMENT_BYTES = 8 << 20


class SegmentLog:
    """An `IngestLog` on a local disk. A lock of its folder keeps other writers out."""

    gather_seconds = 0.003

    def __init__(self, folder: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        """Open the log in `folder` (absolute), or create one. A half-written end after a crash is cut off."""
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._trust = Trust()
        self._lock = threading.Lock()
        self._descriptors: list[int] = []
        try:
            with self._trust.over(folder, "open the ingest log"):
                ensure_folder(folder)
                self._take_lock()
                self._segments = _kept(folder) or [_create(folder, IngestPosition(secrets.token_hex(4), 0, 0))]
                self._open_newest()
                self._end = self._cut_back()
                self._mark = self._open(folder / MARK, os.O_CREAT)
                write_mark(self._mark, self._end)
        except BaseException:
            self.close()
            raise

    @property
    def begin(self) -> IngestPosition:
        return self._segments[0].begin

    @property
    def end(self) -> IngestPosition:
        return self._end

    def append(self, lines: Sequence[bytes]) -> IngestPosition:
        return self.append_payload(Payload.of_lines(lines))

    def append_payload(self, payload: Payload) -> IngestPosition:
        """It writes at the end of the lines that count, so it can continue after a full disk."""
        if not payload.rows:
            return self._end
        with self._lock, self._trust.over(self._folder, "append to the ingest log"):
            if not self._descriptors:  # their numbers may belong to other files by now
                raise OSError(errno.EBADF, "the log is closed")
            if self._end.offset - self._segments[-1].begin.offset >= self._segment_bytes:
                self._roll()
            data, end = encode_frame(self._end, payload)
            at = self._end.offset - self._segments[-1].begin.offset
            try:
                _write(self._newest, data, at)
                sync_file(self._newest)
                write_mark(self._mark, end)  # it may need space, too: on a file system that copies overwritten data
            except (OSError, SyncFailed):
                with suppress(OSError):  # the first error shows the cause; the next open cuts off or writes again
                    os.ftruncate(self._newest, at)
                raise
            self._end = end
            return end

    def last_frame(self) -> Frame | None:
        with self._lock:
            for segment in reversed(self._segments):
                found = whole_frames(segment.path.read_bytes(), segment.begin)
                frames = deque((frame for frame in found if frame.rows), maxlen=1)
                if frames:
                    return frames[0]
        return None

    def require(self, wanted: IngestPosition, where: str) -> None:
        require(self._folder, wanted, self._end, where)

    def parts(self, begin: IngestPosition, end: IngestPosition, where: str) -> list[Slice]:
        return slices(self._folder, begin, end, where)

    def is_worth_a_trim(self, before: IngestPosition) -> bool:
        with self._lock:
            return self._is_trimmed(before)

    def _is_trimmed(self, before: IngestPosition) -> bool:
        """Whether the oldest segment goes. One that has the last frame stays, also where the newest one is empty."""
        second = self._segments[1].begin.offset if len(self._segments) > 1 else self._end.offset
        return second <= before.offset and second < self._end.offset

    def trim(self, before: IngestPosition) -> None:
        with self._lock, self._trust.over(self._folder, "trim the ingest log"):
            removed = False
            while self._is_trimmed(before):
                self._segments[0].path.unlink(missing_ok=True)
                del self._segments[0]
                removed = True
            if removed:
                sync_folder(self._folder)

    def close(self) -> None:
        with self._lock:
            while self._descriptors:
                os.close(self._descriptors.pop())

    def _take_lock(self) -> None:
        """Lock the log's folder. The driver's lock excludes other drivers; this one excludes a second source of the
        same program, and tools.
        """
        path = self._folder / LOCK
        if not flocks.take(self._open(path, os.O_CREAT)):
            raise lock_held(
                "an ingest log without another writer",
                str(path),
                "wait until the other driver has ended, or end it: `tidegate list -r` shows running jobs,"
                " `tidegate stop JOB` ends it",
            )

    def _open(self, path: Path, flags: int = 0) -> int:
        descriptor = os.open(path, os.O_RDWR | flags, 0o666)
        self._descriptors.append(descriptor)
        return descriptor

    def _open_newest(self) -> None:
        self._newest = self._open(self._segments[-1].path)

    def _cut_back(self) -> IngestPosition:
        """The end of the last whole frame. The rest of the file is cut off. The whole frames are written again and
        synced: the process that wrote them may have been killed before its sync, or its sync may have failed.
        """
        end, size = whole_end(self._segments[-1])
        if size > (whole := end.offset - self._segments[-1].begin.offset):
            os.ftruncate(self._newest, whole)
        rewrite(self._segments[-1].path)
        sync_folder(self._folder)
        return end

    def _roll(self) -> None:
        """Continue in a new segment. Every frame of the old one is synced. The old file is closed after the new one is
        open; from then on its descriptor's number may belong to any file.
        """
        segment = _create(self._folder, self._end)
        try:
            newest = self._open(segment.path)
        except OSError:
            with suppress(OSError):  # the next try creates it again
                segment.path.unlink()
            raise
        old, self._newest = self._newest, newest
        self._segments.append(segment)
        self._descriptors.remove(old)
        os.close(old)


def whole_end(newest: Segment) -> tuple[IngestPosition, int]:
    """The end of the last whole frame of a log's newest segment, and the size of the file, which a crash may have made
    longer. Raises RECORD_CORRUPT if whole frames follow a broken one, because then it is not a torn end.
    """
    data = newest.path.read_bytes()
    end = newest.begin
    for frame in whole_frames(data, newest.begin):
        end = frame.end
    if len(data) > end.offset - newest.begin.offset:
        further = frame_behind(data, newest.begin, end)
        if further is not None:
            raise altered(f"a whole frame behind {end}", f"the next whole one at {further}", newest.path)
    return end, len(data)


def _kept(folder: Path) -> list[Segment]:
    found = _without_strangers(segments(folder))
    logs = sorted({segment.begin.log for segment in found})
    if len(logs) > 1:
        raise altered("segments of one log", f"segments of {', '.join(logs)}", folder)
    return unbroken(found)


def _without_strangers(found: list[Segment]) -> list[Segment]:
    """Remove a log without acknowledged lines if another log stands beside it. It was created, and the job refused,
    while the folder of the right log was missing.
    """
    begun = [segment for segment in found if segment.begin.offset or segment.path.stat().st_size]
    if begun:
        for stranger in found:
            if stranger not in begun and stranger.begin.log not in {segment.begin.log for segment in begun}:
                stranger.path.unlink()
    return begun or found


def _create(folder: Path, begin: IngestPosition) -> Segment:
    """Create an empty segment, under a name that survives a power loss."""
    path = folder / segment_name(begin)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    sync_folder(folder)
    return Segment(path, begin)


def _write(descriptor: int, data: bytes, at: int) -> None:
    rest = memoryview(data)
    while rest:
        written = os.pwrite(descriptor, rest, at)
        rest, at = rest[written:], at + written


LOCK = "lock"
