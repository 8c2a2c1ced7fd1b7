"""Where the epochs of a query ended, gathered from its checkpoint while the job runs: Spark forgets old ones."""

from __future__ import annotations

import json
import threading
from pathlib import Path

from tests.campaign.footprint import footprints
from tests.campaign.places import QUERIES, Places
from tests.campaign_kafka.checker import Cuts

_LOOK_SECONDS = 0.1


class Epochs:
    """Looks for new *done* records all the time; a context manager that ends its thread."""

    def __init__(self, places: Places, topic: str) -> None:
        self._places = places
        self._topic = topic
        self._ends: dict[str, dict[int, dict[int, int]]] = {query: {} for query in QUERIES}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="epochs", daemon=True)

    def newest(self, query: str) -> int:
        """The newest epoch that is done, -1 before the first."""
        return max(self._ends[query].copy(), default=-1)

    def read_to(self, query: str) -> int:
        """How many records of the input are in epochs that are done."""
        newest = self.newest(query)
        return sum(self._ends[query][newest].values()) if newest >= 0 else 0

    def cuts(self, query: str) -> Cuts:
        self._look()
        return Cuts(dict(self._ends[query]))

    def missing(self, query: str) -> list[int]:
        """Epochs that were done and gone between two looks."""
        return [epoch for epoch in range(self.newest(query)) if epoch not in self._ends[query]]

    def __enter__(self) -> Epochs:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._closing.wait(_LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        for query in footprints(self._places):
            known = self._ends[query.uid]
            for epoch in query.numbers("ledger/done"):
                if epoch not in known and (ends := self._read(query.folder / "spark" / "offsets" / str(epoch))):
                    known[epoch] = ends

    def _read(self, entry: Path) -> dict[int, int]:
        """By partition the offset behind the epoch's last record; nothing where the entry has gone."""
        try:
            *_, positions = entry.read_text().splitlines()
            return {int(partition): end for partition, end in json.loads(positions)[self._topic].items()}
        except (FileNotFoundError, ValueError, KeyError):
            return {}
