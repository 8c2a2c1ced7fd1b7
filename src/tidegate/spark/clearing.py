"""Deletes the checkpoints of a canceled job (checkpointing.retention=delete) before its end is reported."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidegate.spark.companions import Companion

if TYPE_CHECKING:
    from tidegate.spark.live_job import LiveJob


class Clearing(Companion):
    """Runs after all companions that write into the checkpoints, and before those that answer requests. Its error
    becomes the job's error, and part of the answer.
    """

    def __init__(self, delete: Callable[[], None]) -> None:
        self._delete = delete
        self._handle: LiveJob | None = None

    def opening(self, handle: LiveJob) -> None:
        self._handle = handle

    def ended(self, error: BaseException | None) -> None:
        if self._handle is None or not self._handle.outcome.has_given_up_its_checkpoints:
            return
        if (lost := self._handle.lost_lease()) is not None:  # they are its successor's
            raise lost
        self._delete()
