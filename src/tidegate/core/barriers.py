"""The barriers of one checkpoint over a graph of queries, after Chandy and Lamport ("Distributed Snapshots", 1985).

Queries are joined by channels; each channel has one writer. A query takes part in the checkpoint between two of its
epochs: its newest done epoch is its snapshot, and the end of each channel that it writes is the channel's *barrier*.
A query that reads no channel takes part at once. A reader takes part by the alignment of the checkpoint.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from tidegate.core.channel_parts import ALL_LIVE, ChannelPosition, LiveParts


class Alignment(Enum):
    """When a reader takes part, and what is between its snapshot and the barriers. Flink has the same three: "aligned
    checkpoints", "unaligned checkpoints", and barriers without alignment in the mode at-least-once.
    """

    ALIGNED = "aligned"
    """It is held at each barrier, and takes part when it stands at all of them. Nothing is in a channel."""
    UNALIGNED = "unaligned"
    """It takes part at once, wherever it stands: no reader has read more than its writer has published, so it is at no
    barrier too far. The rows from its position to each barrier are *in flight*: they are part of the checkpoint."""
    AT_LEAST_ONCE = "at-least-once"
    """It takes part when it is past all barriers. A reader of several channels is held nowhere: what it has read behind
    a barrier comes again after a restore. A reader of one channel is held at its barrier, and is exact."""

    def allows(self, unread: int) -> bool:
        """True if the snapshot of a reader may have so many rows left to a barrier. Negative: it has read so many
        behind it.
        """
        match self:
            case Alignment.ALIGNED:
                return unread == 0
            case Alignment.UNALIGNED:
                return unread >= 0
            case Alignment.AT_LEAST_ONCE:
                return unread <= 0


@dataclass(frozen=True, slots=True)
class AlignmentRule:
    """The alignment of each checkpoint of a job. `aligned_seconds`: an aligned one that is not complete by then
    continues as an unaligned one.
    """

    begin: Alignment = Alignment.ALIGNED
    aligned_seconds: float = math.inf

    @property
    def end(self) -> Alignment:
        """The alignment of a checkpoint that takes as long as it may."""
        return self.begin if math.isinf(self.aligned_seconds) else Alignment.UNALIGNED


ALWAYS_ALIGNED = AlignmentRule()
"""The rule of savepoints."""


@dataclass(frozen=True, slots=True)
class GraphQuery:
    """A query of a graph. `reads`: for each of its sources that reads a channel, that channel. `writes`: the channels
    that it writes.
    """

    uid: str
    reads: Mapping[str, str]
    writes: tuple[str, ...]


class Barriers:
    """The barriers of one checkpoint, as far as they are known."""

    def __init__(
        self,
        graph: Sequence[GraphQuery],
        alignment: Alignment = Alignment.ALIGNED,
        live: LiveParts = ALL_LIVE,
    ) -> None:
        self._alignment = alignment
        self._graph = {query.uid: query for query in graph}
        self._live = live
        self._at: dict[str, ChannelPosition] = {}
        self._taken: set[str] = set()

    @property
    def alignment(self) -> Alignment:
        return self._alignment

    def overtake(self) -> None:
        """An aligned checkpoint continues as an unaligned one. The queries that have taken part stand at their
        barriers, so their snapshots stay right.
        """
        if self._alignment is Alignment.ALIGNED:
            self._alignment = Alignment.UNALIGNED

    @property
    def is_complete(self) -> bool:
        """True if every query has taken part."""
        return len(self._taken) == len(self._graph)

    def has_taken_part(self, query: str) -> bool:
        return query in self._taken

    def at(self, channel: str) -> ChannelPosition | None:
        """The barrier of a channel; None if its writer has not taken part."""
        return self._at.get(channel)

    def passing(self, channel: str) -> frozenset[str]:
        """The readers of a channel that are not held at its barrier. Unaligned, a reader may have taken part before its
        writer.
        """
        if self._alignment is not Alignment.AT_LEAST_ONCE:
            return frozenset(self._taken)
        several = (query for query in self._graph.values() if len(set(query.reads.values())) > 1)
        return frozenset(query.uid for query in several if channel in query.reads.values())

    def held_at(self, query: str, channel: str) -> ChannelPosition | None:
        """Where a reader is held that has not taken part; None if it is not."""
        free = self._alignment is Alignment.UNALIGNED or query in self.passing(channel)
        return None if free else self._at.get(channel)

    def waits_for(self, query: str, positions: Mapping[str, Sequence[ChannelPosition]]) -> Mapping[str, int | None]:
        """The channels that keep a query from taking part: how many rows it has left to the barrier, None if the
        barrier is not known yet. Empty if the query is to take part now.

        `positions`: for each source, the end of the query's newest done epoch, at each place in its plan: a query that
        reads a source twice can stand at two positions. Empty for a source that it has not begun to read. Such a source
        is always aligned: without a position a restore could not find its rows in flight.
        """
        waits: dict[str, int | None] = {}
        for source, channel in self._graph[query].reads.items():
            barrier = self._at.get(channel)
            for position in positions.get(source) or [{}]:
                alignment = self._alignment if position else Alignment.ALIGNED
                if alignment is Alignment.UNALIGNED:
                    continue
                if barrier is None:
                    waits[channel] = None
                    continue
                left = self._live.unread(position, barrier)
                if not alignment.allows(left):
                    waits[channel] = max(left, waits.get(channel) or left)
        return waits

    def take_part(self, query: str, ends: Mapping[str, ChannelPosition]) -> None:
        """A query takes part. `ends`: where each channel that it writes ends with its snapshot."""
        self._at.update({channel: ends[channel] for channel in self._graph[query].writes})
        self._taken.add(query)


def held_at(barrier: ChannelPosition, end: ChannelPosition) -> ChannelPosition:
    """The end of an epoch that must not pass a barrier. A part that begins behind the barrier is left out."""
    return {part: min(at, barrier[part]) for part, at in end.items() if part in barrier}
