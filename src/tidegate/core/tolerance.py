"""Counts failed epochs of a query in a row, and limits them (checkpointing.tolerable_failures)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class EpochFault(Enum):
    """The reasons of a failed epoch that may run again: failures around an epoch, never in the query's own work."""

    TIMEOUT = "not prepared within checkpointing.timeout"
    PRE_COMMIT = "a sink did not pre-commit"
    PREPARED = "its record could not be written"


@dataclass(slots=True)
class Tolerance:
    """Counts the failed epochs of one query since an epoch was last done. A process that is started after one continues
    the count of the process before.
    """

    limit: int
    in_a_row: int = 0
    _done_before: int = 0

    def failed(self, epochs_done: int) -> bool:
        """Note a failed epoch, after `epochs_done` done ones. True if it is still tolerated."""
        self.in_a_row = self.count(epochs_done) + 1
        return self.in_a_row <= self.limit

    def count(self, epochs_done: int) -> int:
        """The number of failures in a row, after `epochs_done` done epochs."""
        if epochs_done > self._done_before:
            self._done_before, self.in_a_row = epochs_done, 0
        return self.in_a_row
