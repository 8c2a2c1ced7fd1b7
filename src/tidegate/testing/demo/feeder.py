"""Adds input while the demo runs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from tidegate.testing.checker import Batches
from tidegate.testing.demo.ends import Ends

_PAUSE_SECONDS = 0.02


class Progress(NamedTuple):
    """Progress of a query: complete epochs, and complete batches.

    As a rule a batch is an epoch. A restart may read two batches in one epoch. A batch whose partitions become readable
    one after the other may be split in two.
    """

    epochs: int
    batches: int


def complete(queries: Sequence[Progress]) -> int:
    """The number of batches that all queries have completed."""
    return min(each.batches for each in queries)


def batches_until(epoch: int, queries: Sequence[Progress], fed: int, ahead: int) -> int:
    """How many batches may be in the input so that every query begins `epoch` and has no input for a later one.

    `fed`: the number of batches that are there already. A query that has input for `epoch` is stopped in that epoch and
    completes nothing more, so the other queries decide the number. These get at most `ahead` batches in advance.
    """
    wanting = [each for each in queries if each.epochs < epoch or each.batches >= fed]
    if not wanting:
        return fed
    needed = epoch + 1 + max(each.batches - each.epochs for each in queries)
    return min(needed, min(each.batches for each in wanting) + ahead)


class Feeder:
    """Adds the batches of the input, one after the other."""

    def __init__(self, ends: Ends, batches: Batches) -> None:
        self.fed = 0
        self._ends = ends
        self._batches = batches
        self._next_at = 0.0

    def feed(self, up_to: int) -> None:
        """Add the next batch.

        Does nothing if `up_to` batches were added already, or if the last one was added a moment ago.
        """
        if self.fed >= min(up_to, len(self._batches)) or time.monotonic() < self._next_at:
            return
        self._ends.put(self._batches[self.fed])
        self.fed += 1
        self._next_at = time.monotonic() + _PAUSE_SECONDS
