"""Writes the manifests of retained checkpoints beside a running job, a few times a second at most."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tidegate.checkpoints.retained import RetainedCheckpoints
from tidegate.core.effects import Happening
from tidegate.core.happenings import EpochDone
from tidegate.spark.companions import Companion

if TYPE_CHECKING:
    from tidegate.spark.handle import JobHandle

_SECONDS_BETWEEN = 0.25


class Retaining(Companion):
    """Notes every epoch that is done where it is told, and writes in the job's own thread: no epoch waits for it."""

    def __init__(self, checkpoints: RetainedCheckpoints) -> None:
        self._checkpoints = checkpoints
        self._due = False
        self._written_at = 0.0

    def started(self, job: JobHandle) -> None:
        self._checkpoints.begin()

    def happened(self, query: str, run: int, happening: Happening) -> None:
        if isinstance(happening, EpochDone):
            self._checkpoints.note(query)
            self._due = True

    def look(self) -> None:
        if self._due and time.monotonic() >= self._written_at + _SECONDS_BETWEEN:
            self._write()

    def drained(self) -> None:
        self._checkpoints.note_drained()
        self._write()

    def ended(self, error: BaseException | None) -> None:
        self._write()

    def _write(self) -> None:
        self._due = False
        self._checkpoints.write()
        self._written_at = time.monotonic()
