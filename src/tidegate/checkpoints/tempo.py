"""How often epochs begin, and how long they take by Spark's own log, with a file for each one's begin and its end."""

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
    """What a source adapts the rows of its epochs by. `log`: the folder of Spark's log of the query, which the ledger
    stands beside."""

    interval_seconds: float
    log: Path
    timeout_seconds: float = math.inf

    def newest_epoch_seconds(self) -> float | None:
        """From the newest finished epoch's entry in `offsets` to the one in `commits`; None where there is none. Of an
        epoch that an earlier run has begun, what counts is the time since this run began.

        Spark asks for the next epoch's end no sooner than the interval: when it asks tells nothing of an epoch that
        fits. Both times are the file system's own, so it does not matter what another machine's clock says.
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
        """When the newest run began, in nanoseconds; 0 where nothing says so."""
        folder = self.log.parent / RUNS
        with suppress(FileNotFoundError, IndexError):
            return os.stat(folder / str(entry_numbers(os.listdir(folder))[-1])).st_mtime_ns
        return 0
