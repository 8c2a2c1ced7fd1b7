"""What the files of a query's checkpoint show: how far it is, and in which phase an epoch stands."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tests.campaign.places import QUERIES, Places
from tests.support.driver import numbers


class Phase(Enum):
    """Between which durable records a strike came; R: while a run recovers what an older one has left."""

    A = "before pre-commit"
    B = "pre-commit .. prepared"
    C = "prepared .. commits/N"
    D = "commits/N .. decided"
    E = "decided .. done"
    S = "between two epochs"
    R = "recovery"


RECORDS = ("spark/offsets", "ledger/prepared", "spark/commits", "ledger/decided", "ledger/done")
"""What appears in the course of an epoch, in this order."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """One query of the job, by its newest generation's folder."""

    uid: str
    folder: Path

    def newest(self, record: str) -> int:
        return max(numbers(self.folder / record), default=-1)

    def complete(self) -> int:
        """The newest epoch that Spark has committed and, where there are decisions, that is done."""
        return self.newest("spark/commits") if not self._decides() else self.newest("ledger/done")

    def shows(self, record: str, epoch: int) -> bool:
        """Whether this record of `epoch` is there, of whichever run."""
        return epoch in numbers(self.folder / record)

    def phases(self, epoch: int) -> frozenset[Phase]:
        """The phases in which `epoch` can be, by its files; A and B cannot be told apart from outside."""
        if not self.shows("spark/offsets", epoch) or self.shows("ledger/done", epoch):
            return frozenset({Phase.S})
        if self.shows("ledger/decided", epoch):
            return frozenset({Phase.E})
        if self.shows("spark/commits", epoch):
            return frozenset({Phase.D})
        runs = numbers(self.folder / "ledger/runs")
        if f"{epoch}.{max(runs, default=0)}" in _names(self.folder / "ledger/prepared"):
            return frozenset({Phase.C})
        return frozenset({Phase.A, Phase.B})

    def _decides(self) -> bool:
        return bool(_names(self.folder / "ledger/decided")) or not _names(self.folder / "spark/commits")


def footprints(places: Places, checkpoints: Path | None = None) -> list[Footprint]:
    """Those of the job's queries."""
    found: list[Footprint] = []
    for uid in QUERIES:
        folder = places.generations(uid, checkpoints)
        newest = max((int(name[1:]) for name in _names(folder) if name[1:].isdigit()), default=1)
        found.append(Footprint(uid, folder / f"g{newest}"))
    return found


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
