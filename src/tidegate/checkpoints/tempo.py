"""The duration of epochs that is wanted, and the one that was, by Spark's own log: the times of its files."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tidegate.checkpoints.spark_layout import COMMITS, commits_entry, entry_numbers, offsets_entry
from tidegate.core.ledger import RUNS


@dataclass(frozen=True, slots=True)
class Tempo:
    """The values by which a source adapts the rows of its epochs.

    `aim_seconds`: the duration that an epoch with a backlog aims at; 0: none. `log`: the folder of Spark's log of the
    query, beside the ledger. `timeout_seconds`: the time after which an epoch is cancelled.
    """

    aim_seconds: float
    log: Path
    timeout_seconds: float = math.inf

    def newest_epoch_seconds(self) -> float | None:
        """Seconds between the newest finished epoch's entries in `offsets` and in `commits`; None if there is none. For
        an epoch that an earlier run has begun, the time since this run began counts.

        Spark requests the end of the next epoch at the earliest after the interval. So the time of this request does
        not show the duration of a shorter epoch. Both times come from the file system, so clocks of other machines do
        not matter.
        """
        try:
            finished = entry_numbers(os.listdir(self.log / COMMITS))
            if not finished:
                return None
            entries = offsets_entry(finished[-1]), commits_entry(finished[-1])
            begin, end = (os.stat(self.log / entry).st_mtime_ns for entry in entries)
        except FileNotFoundError:
            return None
        return (end - max(begin, self._run_begun())) / 1e9

    def _run_begun(self) -> int:
        """The time when the newest run began, in nanoseconds; 0 if unknown."""
        folder = self.log.parent / RUNS
        with suppress(FileNotFoundError, IndexError):
            return os.stat(folder / str(entry_numbers(os.listdir(folder))[-1])).st_mtime_ns
        return 0
