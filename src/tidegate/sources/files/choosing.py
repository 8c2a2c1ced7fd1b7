"""Which of the new files an epoch takes: those that have settled, the oldest first, and no more than it may."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidegate.sources.files.listing import SeenFile, in_order


class Settling:
    """Files that are new, and since when each is as it is.

    A file has settled when two listings so far apart have shown the same size and time. Where its time comes from this
    machine's clock and is that long ago, the first listing tells as much.
    """

    def __init__(self, seconds: float, *, on_this_clock: bool) -> None:
        self._seconds = seconds
        self._on_this_clock = on_this_clock
        self._since: dict[SeenFile, float] = {}

    def settled(self, new: Iterable[SeenFile], clock: float, now_ns: int) -> tuple[list[SeenFile], list[SeenFile]]:
        """Of the new files of a listing, those that have settled and those that have not. `clock` is monotonic, in
        seconds; `now_ns` is the time of day."""
        quiet_before_ns = now_ns - int(self._seconds * 1e9)
        since: dict[SeenFile, float] = {}
        settled, waiting = list[SeenFile](), list[SeenFile]()
        for seen in new:
            first = since[seen] = self._since.get(seen, clock)
            is_quiet = self._on_this_clock and seen.mtime_ns <= quiet_before_ns
            (settled if self._seconds <= 0 or is_quiet or clock - first >= self._seconds else waiting).append(seen)
        self._since = since
        return settled, waiting


def taken(settled: Sequence[SeenFile], limits: Sequence[tuple[int | None, int | None]]) -> list[SeenFile]:
    """What an epoch takes, oldest first: one file at least, and no more files and bytes than each limit says."""
    ordered = in_order(settled)
    files = min((count for count, _ in limits if count is not None), default=len(ordered))
    most_bytes = min((size for _, size in limits if size is not None), default=None)
    found, size = ordered[:1], sum(seen.size for seen in ordered[:1])
    for seen in ordered[1:files]:
        size += seen.size
        if most_bytes is not None and size > most_bytes:
            break
        found.append(seen)
    return found
