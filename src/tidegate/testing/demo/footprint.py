"""Reads the files of a query's checkpoint: the number of complete epochs, and the phase of an epoch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tidegate.checkpoints.spark_layout import COMMITS, OFFSETS, entry_numbers
from tidegate.core.spark_log import parse_offsets
from tidegate.testing.demo.places import QUERIES, Gate, Places
from tidegate.testing.demo.schedule import Phase


@dataclass(slots=True)
class Footprint:
    """The checkpoint folders of one query: Spark's, and the ledger (None for plain Spark).

    `epoch_ms`: the duration in milliseconds of each epoch that began after `since`; earlier ones were interrupted by a
    kill. `positions`: the end of each complete epoch, as a position of the query's source.
    """

    uid: str
    spark: Path
    ledger: Path | None
    outputs: Path
    since: float = 0.0
    epoch_ms: dict[int, float] = field(default_factory=dict[int, float])
    positions: dict[int, str | None] = field(default_factory=dict[int, str | None])

    def complete(self) -> int:
        """The number of complete epochs: done in the ledger, or for plain Spark committed in its log.

        Also stores the duration and the end position of each, while Spark's log still has them.
        """
        folder = self._end_folder()
        numbers = entry_numbers(_names(folder))
        for epoch in numbers:
            if epoch not in self.positions:
                self._note_time(epoch, folder / str(epoch))
                self.positions[epoch] = self._position(epoch)
        return max(numbers, default=-1) + 1

    def phases(self, epoch: int) -> frozenset[Phase]:
        """The possible phases of `epoch`, according to its files. Empty if it has not begun or is complete.

        A and B differ in the work of the tasks: in B there are staged files or journals. Without a ledger only two
        states can be distinguished: Spark has not committed the epoch (A, B, C), or it has (D, E).
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
        places = [
            (self.outputs, f"*.tidegate/**/{self.uid}.*/e{epoch}/r{run}-*"),
            (self.outputs, f"*/.tidegate/**/{self.uid}.*/e{epoch}/r{run}-*"),
            *([] if self.ledger is None else [(self.ledger, f"journal/{epoch}/*.r{run}-*")]),
        ]
        return any(any(folder.glob(pattern)) for folder, pattern in places)

    def _position(self, epoch: int) -> str | None:
        offsets = parse_offsets((self.spark / OFFSETS / str(epoch)).read_bytes())
        return None if offsets is None else offsets.positions[0]

    def _note_time(self, epoch: int, end: Path) -> None:
        try:
            ended, began = end.stat().st_mtime, (self.spark / OFFSETS / str(epoch)).stat().st_mtime
        except FileNotFoundError:
            return
        if began >= self.since:
            self.epoch_ms[epoch] = (ended - began) * 1000


def footprints(places: Places, gate: Gate) -> Iterator[Footprint]:
    """A `Footprint` for each query of the demo."""
    for uid in QUERIES:
        if gate is Gate.on:
            generation = places.checkpoints / "demo" / "queries" / uid / "g1"
            yield Footprint(uid, generation / "spark", generation / "ledger", places.table.parent)
        else:
            yield Footprint(uid, places.checkpoints / uid, None, places.table.parent)


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
