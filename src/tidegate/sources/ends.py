"""Asks a `RowSource` where its epochs end, and checks each answer before Spark records it."""

from __future__ import annotations

import time
from collections.abc import Callable

from tidegate.core.errors import Code, TidegateError
from tidegate.sources.base import Position, RowSource, goes_back

IDLE_SECONDS = 0.05
"""Spark asks an idle source every 10 to 20 ms. The source is asked this seldom."""


class RowEnds:
    """Finds the end of each epoch for one query that reads the source."""

    def __init__(self, source: RowSource, where: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`where`: the name of the source in error messages. `clock`: the time in seconds, monotonic."""
        self._source = source
        self._where = where
        self._clock = clock
        self._target: Position | None = None
        self._idle: tuple[Position, float] | None = None

    def catch_up(self) -> None:
        """Let no later epoch end after the rows that are there now. Called for a run until `caught-up`."""
        self._target = self._source.newest()

    def after(self, start: Position) -> Position:
        """The end of the epoch that begins at `start`; `start` itself if there are no new rows.

        Raises OFFSETS_BACKWARDS if the source ends before `start`, or if its method `end` returns a position out of
        bounds.
        """
        now = self._clock()
        if self._idle is not None and self._idle[0] == start and now - self._idle[1] < IDLE_SECONDS:
            return start
        newest = self._source.newest() if self._target is None else self._target
        self._require(start, newest, "a source that still has what was read of it")
        new = sorted(newest.keys() - start.keys())
        known = {part: newest[part] for part in start}
        end = known if known == start else self._source.end(start, known)
        self._require(start, end, "an end of an epoch at its start or behind it")
        self._require(end, known, "an end of an epoch that the source has reached")
        oldest: Position = self._source.oldest() if new else {}
        found = {**end, **{part: min(oldest.get(part, 0), newest[part]) for part in new}}
        self._idle = (start, now) if found == start else None
        return found

    def _require(self, before: Position, now: Position, expected: str) -> None:
        back = goes_back(before, now)
        if back:
            raise TidegateError(
                Code.OFFSETS_BACKWARDS,
                expected=expected,
                found=f"an older one: {back}",
                where=self._where,
                next_step="put the source back as it was; or start under another job name or checkpointing.dir",
            )
