"""Writes the manifests of retained checkpoints beside a running job, regularly."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tidegate.checkpoints.retained import RetainedCheckpoints
from tidegate.core.effects import Happening
from tidegate.core.errors import TidegateError
from tidegate.core.happenings import EpochDone
from tidegate.spark.ticking import Ticking

if TYPE_CHECKING:
    from tidegate.spark.live_job import LiveJob


class Retaining(Ticking):
    """Notes each done epoch at once, and writes the manifests of retained checkpoints in a separate thread.

    So no epoch waits for the write of a manifest, and no epoch fails if that write fails. A failed write is retried
    until the manifest is so old that it would be removed.
    """

    def __init__(self, checkpoints: RetainedCheckpoints, every_seconds: float) -> None:
        super().__init__("record of retained checkpoints", every_seconds)
        self._checkpoints = checkpoints
        self._unread: set[str] = set()
        """The queries with a done epoch that could not be noted."""

    def begin(self, handle: LiveJob) -> None:
        self._checkpoints.look()

    def started(self, job: LiveJob) -> None:
        self._attempt(self._checkpoints.look)

    def happened(self, query: str, run: int, happening: Happening) -> None:
        if not isinstance(happening, EpochDone):
            return
        if not self._attempt(partial(self._checkpoints.note, query, happening.reached)):
            self._unread.add(query)

    def tick(self) -> None:
        for query in list(self._unread):
            self._checkpoints.note(query)
            self._unread.discard(query)
        self._checkpoints.write()

    def drained(self) -> None:
        """Write the manifest of a drained job. Unlike other manifests it is part of a request: if the write fails, the
        drain fails, and the next start resumes the drain.
        """
        self.tick()
        self._checkpoints.note_drained()
        self.tick()

    def last(self, error: BaseException | None) -> None:
        self.tick()

    def _attempt(self, step: Callable[[], None]) -> bool:
        """Call `step`. Returns True if it succeeded. An error is logged, and fails no epoch and no start."""
        try:
            step()
        except (OSError, TidegateError) as error:
            self._complain(error)
            return False
        return True
