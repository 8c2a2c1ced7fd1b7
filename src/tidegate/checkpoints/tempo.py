"""The duration of epochs that is wanted, and the one that was, by Spark's own log: the times of its files."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tidegate.checkpoints.spark_layout import COMMITS, commits_entry, entry_numbers, offsets_entry
from tidegate.core.ledger import RUNS, entry
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder


@dataclass(frozen=True, slots=True)
class Tempo:
    """The values by which a source adapts the rows of its epochs.

    `aim_seconds`: the duration that an epoch with a backlog aims at; 0: none. `log`: the folder of Spark's log of the
    query, beside the ledger. `timeout_seconds`: the time after which an epoch is cancelled.
    """

    aim_seconds: float
    log: Folder
    timeout_seconds: float = math.inf

    def newest_epoch_seconds(self) -> float | None:
        """Seconds between the newest finished epoch's entries in `offsets` and in `commits`; None if there is none. For
        an epoch that an earlier run has begun, the time since this run began counts.

        Spark requests the end of the next epoch at the earliest after the interval. So the time of this request does
        not show the duration of a shorter epoch. Both times come from the file system, so clocks of other machines do
        not matter.
        """
        log = open_storage(self.log)
        finished = entry_numbers(log.peek_names(COMMITS))
        if not finished:
            return None
        begin, end = log.look(offsets_entry(finished[-1])), log.look(commits_entry(finished[-1]))
        if begin is None or end is None:
            return None
        return end.written_at - max(begin.written_at, self._run_begun())

    def _run_begun(self) -> float:
        """The time when the newest run began; 0 if unknown."""
        query = open_storage(self.log.parent)
        runs = entry_numbers(query.peek_names(RUNS))
        newest = query.look(entry(RUNS, runs[-1])) if runs else None
        return 0.0 if newest is None else newest.written_at
