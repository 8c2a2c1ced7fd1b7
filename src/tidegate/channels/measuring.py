"""Measures how each query takes part in a checkpoint: how long it waited, and what waited behind its barriers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from tidegate.channels.channel import RowsBetween
from tidegate.core.barriers import GraphQuery
from tidegate.core.records import TakenPart


class PartsTaken:
    """The queries of one checkpoint that have taken part. Its time begins here."""

    def __init__(self, graph: Sequence[GraphQuery]) -> None:
        self._reads = {query.uid: frozenset(query.reads.values()) for query in graph}
        self._writes = {query.uid: query.writes for query in graph}
        self._begun = time.monotonic()
        self._barriers: dict[str, float] = {}
        self._taken: dict[str, TakenPart] = {}

    def take_part(self, query: str, held: Sequence[RowsBetween]) -> None:
        """A query takes part now. `held`: what waits for it behind each barrier."""
        now = time.monotonic()
        seen = [self._barriers[channel] for channel in self._reads[query] if channel in self._barriers]
        self._barriers.update(dict.fromkeys(self._writes[query], now))
        self._taken[query] = TakenPart(
            after_ms=_ms(now - self._begun),
            aligned_ms=_ms(now - min(seen, default=now)),
            rows_held=sum(each.rows for each in held),
            bytes_held=sum(each.size_bytes for each in held),
        )

    @property
    def taken(self) -> Mapping[str, TakenPart]:
        return dict(self._taken)


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
