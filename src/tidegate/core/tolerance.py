"""How many epochs of a query may fail in a row before the job does (checkpointing.tolerable_failures)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class EpochFault(Enum):
    """Why an epoch failed that may run again: what goes wrong around an epoch, never what the query itself does."""

    TIMEOUT = "not prepared within checkpointing.timeout"
    PRE_COMMIT = "a sink did not pre-commit"
    PREPARED = "its record could not be written"


@dataclass(slots=True)
class Tolerance:
    """Counts the failed epochs of one query since an epoch was last done. A process that is started because of one goes
    on with the count of the process before."""

    limit: int
    in_a_row: int = 0
    _done_before: int = 0

    def failed(self, epochs_done: int) -> bool:
        """Note that an epoch has failed, when `epochs_done` were done so far; whether that is still tolerated."""
        self.in_a_row = self.count(epochs_done) + 1
        return self.in_a_row <= self.limit

    def count(self, epochs_done: int) -> int:
        """How many have failed in a row, when `epochs_done` were done so far."""
        if epochs_done > self._done_before:
            self._done_before, self.in_a_row = epochs_done, 0
        return self.in_a_row
