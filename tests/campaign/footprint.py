"""What the files of a query's checkpoint show: how far it is, and in which phase an epoch stands."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TypeVar

from tests.campaign.drivers import BOUND_SECONDS
from tests.campaign.places import QUERIES, Places
from tidegate.core.errors import Code, TidegateError
from tidegate.storages.opening import open_storage
from tidegate.storages.storage import Storage

FoundT = TypeVar("FoundT")


class Phase(Enum):
    """Between which durable records a strike came; R: while a run recovers what an older one has left."""

    A = "before pre-commit"
    B = "pre-commit .. prepared"
    C = "prepared .. commits/N"
    D = "commits/N .. decided"
    E = "decided .. done"
    S = "between two epochs"
    R = "recovery"


_NUMBER = re.compile(r"(\d+)(?:[.-]|$)")

RECORDS = ("spark/offsets", "ledger/prepared", "spark/commits", "ledger/decided", "ledger/done")
"""What appears in the course of an epoch, in this order."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """One query of the job, by its newest generation's folder, which is the root of `storage`."""

    uid: str
    storage: Storage

    @property
    def folder(self) -> Path:
        """On the local disk."""
        return Path(self.storage.where())

    def newest(self, record: str) -> int:
        return max(self.numbers(record), default=-1)

    def numbers(self, record: str) -> Sequence[int]:
        """Those of all records: `7`, `7.2` and `7-0123abcd` all count as 7."""
        heads = (_NUMBER.match(name) for name in self._names(record))
        return sorted({int(head[1]) for head in heads if head is not None})

    def complete(self) -> int:
        """The newest epoch that Spark has committed and, where there are decisions, that is done."""
        return self.newest("spark/commits") if not self._decides() else self.newest("ledger/done")

    def shows(self, record: str, epoch: int) -> bool:
        """Whether this record of `epoch` is there, of whichever run."""
        return epoch in self.numbers(record)

    def phases(self, epoch: int) -> frozenset[Phase]:
        """The phases in which `epoch` can be, by its files; A and B cannot be told apart from outside."""
        if not self.shows("spark/offsets", epoch) or self.shows("ledger/done", epoch):
            return frozenset({Phase.S})
        if self.shows("ledger/decided", epoch):
            return frozenset({Phase.E})
        if self.shows("spark/commits", epoch):
            return frozenset({Phase.D})
        newest_run = max(self.numbers("ledger/runs"), default=0)
        if f"{epoch}.{newest_run}" in self._names("ledger/prepared"):
            return frozenset({Phase.C})
        return frozenset({Phase.A, Phase.B})

    def _names(self, record: str) -> Sequence[str]:
        return patiently(lambda: self.storage.peek_names(record))

    def _decides(self) -> bool:
        return bool(self.numbers("ledger/decided")) or not self.numbers("spark/commits")


def patiently(look: Callable[[], FoundT]) -> FoundT:
    """What `look` finds on a storage. A busy server may let one time out: then it is tried again, for a while."""
    end = time.monotonic() + BOUND_SECONDS
    while True:
        try:
            return look()
        except TidegateError as error:
            if error.catalogue_entry is not Code.STORAGE_UNUSABLE or time.monotonic() > end:
                raise


def footprints(places: Places) -> list[Footprint]:
    """Those of the job's queries."""
    found: list[Footprint] = []
    job = open_storage(places.job)
    for uid in QUERIES:
        generations = job.below(f"queries/{uid}")
        names = patiently(lambda folder=generations: folder.folders(""))
        newest = max((int(name[1:]) for name in names if name[1:].isdigit()), default=1)
        found.append(Footprint(uid, generations.below(f"g{newest}")))
    return found
