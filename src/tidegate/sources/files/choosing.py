"""Chooses the new files of an epoch: settled files, the oldest first, within the limits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidegate.sources.files.listing import SeenFile, in_order


class Settling:
    """The new files, and for each the time since when it has not changed.

    A file has settled when two listings that are `seconds` apart show the same size and time. If the file's time comes
    from this machine's clock and is older than that, the first listing is enough.
    """

    def __init__(self, seconds: float, *, on_this_clock: bool) -> None:
        self._seconds = seconds
        self._on_this_clock = on_this_clock
        self._since: dict[SeenFile, float] = {}

    def settled(self, new: Iterable[SeenFile], clock: float, now_ns: int) -> tuple[list[SeenFile], list[SeenFile]]:
        """Divide the new files of a listing into those that have settled and those that have not.

        `clock`: a monotonic time in seconds. `now_ns`: the time of day in nanoseconds.
        """
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
    """The files of an epoch, the oldest first: at least one, and within all limits.

    A limit: (most files, most bytes).
    """
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
