"""What the files of a query's checkpoint show: how far it is, and in which phase an epoch stands."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tidegate.checkpoints.spark_layout import COMMITS, OFFSETS, entry_numbers
from tidegate.core.spark_log import log_offset, parse_offsets
from tidegate.testing.demo.places import QUERIES, Places
from tidegate.testing.demo.schedule import Phase


@dataclass(slots=True)
class Footprint:
    """One query, by its folders: Spark's, and the ledger (None for plain Spark).

    `epoch_ms`: the time of each epoch that began after `since`; others were cut by a kill. `files_to`: how many files
    are through with each complete epoch.
    """

    uid: str
    spark: Path
    ledger: Path | None
    outputs: Path
    since: float = 0.0
    epoch_ms: dict[int, float] = field(default_factory=dict[int, float])
    files_to: dict[int, int] = field(default_factory=dict[int, int])

    def complete(self) -> int:
        """How many epochs are complete: done by the ledger, or committed by plain Spark.

        Notes of each how long it took and what it read, as long as Spark's log has it.
        """
        folder = self._end_folder()
        numbers = entry_numbers(_names(folder))
        for epoch in numbers:
            if epoch not in self.files_to:
                self._note_time(epoch, folder / str(epoch))
                self._note_files(epoch)
        return max(numbers, default=-1) + 1

    def files_through(self) -> int:
        """How many files of the input are through. Not always the number of epochs: a run that dies between the file
        source's own log and the offsets lets the next one take two files into one epoch."""
        self.complete()
        return max(self.files_to.values(), default=0)

    def merged(self) -> int:
        """How many epochs fewer than files there have been."""
        return self.files_through() - len(self.files_to)

    def phases(self, epoch: int) -> frozenset[Phase]:
        """The phases in which `epoch` can be, by its files; none when it has not begun or is complete.

        A and B differ by what the tasks have done, which leaves staged files or none. Without a ledger there are
        only two states: Spark has not committed the epoch (A, B, C), or it has (D, E).
        """
        if not (self.spark / OFFSETS / str(epoch)).exists():
            return frozenset()
        committed = (self.spark / COMMITS / str(epoch)).exists()
        if self.ledger is None:
            return frozenset({Phase.D, Phase.E} if committed else {Phase.A, Phase.B, Phase.C})
        if (self.ledger / "done" / str(epoch)).exists():
            return frozenset()
        if (self.ledger / "decided" / str(epoch)).exists():
            return frozenset({Phase.E})
        if committed:
            return frozenset({Phase.D})
        run = max(entry_numbers(_names(self.ledger / "runs")), default=0)
        if (self.ledger / "prepared" / f"{epoch}.{run}").exists():
            return frozenset({Phase.C})
        return frozenset({Phase.A, Phase.B} if self._has_staged(epoch, run) else {Phase.A})

    def _end_folder(self) -> Path:
        return self.spark / COMMITS if self.ledger is None else self.ledger / "done"

    def _has_staged(self, epoch: int, run: int) -> bool:
        return any(self.outputs.glob(f"*.tidegate/**/{self.uid}.*/e{epoch}/r{run}-*")) or any(
            self.outputs.glob(f"*/.tidegate/**/{self.uid}.*/e{epoch}/r{run}-*")
        )

    def _note_files(self, epoch: int) -> None:
        offsets = parse_offsets((self.spark / OFFSETS / str(epoch)).read_bytes())
        newest = None if offsets is None else log_offset(offsets.positions[0])
        self.files_to[epoch] = 0 if newest is None else newest + 1

    def _note_time(self, epoch: int, end: Path) -> None:
        try:
            ended, began = end.stat().st_mtime, (self.spark / OFFSETS / str(epoch)).stat().st_mtime
        except FileNotFoundError:
            return
        if began >= self.since:
            self.epoch_ms[epoch] = (ended - began) * 1000


def footprints(places: Places, gated: bool) -> Iterator[Footprint]:
    """Those of the demo's queries."""
    for uid in QUERIES:
        if gated:
            generation = places.checkpoints / "demo" / "queries" / uid / "g1"
            yield Footprint(uid, generation / "spark", generation / "ledger", places.table.parent)
        else:
            yield Footprint(uid, places.checkpoints / uid, None, places.table.parent)


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
