"""How often epochs begin, and how long they take by Spark's own log, with a file for each one's begin and its end."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tidegate.checkpoints.spark_layout import COMMITS, commits_entry, entry_numbers, offsets_entry


@dataclass(frozen=True, slots=True)
class Tempo:
    """What a source adapts the rows of its epochs by. `log`: the folder of Spark's log of the query."""

    interval_seconds: float
    log: Path

    def newest_epoch_seconds(self) -> float | None:
        """From the newest finished epoch's entry in `offsets` to the one in `commits`; None where there is none.

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
        return (end - begin) / 1e9
