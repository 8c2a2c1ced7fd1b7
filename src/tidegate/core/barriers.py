"""The barriers of one checkpoint over a graph of queries, after Chandy and Lamport ("Distributed Snapshots", 1985).

Queries are joined by channels; each channel has one writer. A query takes part in the checkpoint between two of its
epochs: its newest done epoch is its snapshot, and the end of each channel that it writes is the channel's *barrier*.

Barriers are aligned, as those of Flink's savepoints are: a reader is held at a barrier, and takes part when it stands
at the barriers of all channels that it reads. So nothing is in a channel at the cut. A query that reads no channel
takes part at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidegate.core.channel_parts import ChannelPosition, unread


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

    def __init__(self, graph: Sequence[GraphQuery], since: int = 0) -> None:
        """`since`: the oldest live generation; rows of older ones are not read any more."""
        self._graph = {query.uid: query for query in graph}
        self._since = since
        self._at: dict[str, ChannelPosition] = {}
        self._taken: set[str] = set()

    @property
    def is_complete(self) -> bool:
        """True if every query has taken part."""
        return len(self._taken) == len(self._graph)

    def has_taken_part(self, query: str) -> bool:
        return query in self._taken

    def at(self, channel: str) -> ChannelPosition | None:
        """The barrier of a channel; None if its writer has not taken part."""
        return self._at.get(channel)

    def waits_for(self, query: str, positions: Mapping[str, Sequence[ChannelPosition]]) -> Mapping[str, int | None]:
        """The channels that keep a query from taking part: how many rows it has left to the barrier, None if the
        barrier is not known yet. Empty if the query is to take part now.

        `positions`: for each source, the end of the query's newest done epoch, at each place in its plan: a query that
        reads a source twice can stand at two positions.
        """
        waits: dict[str, int | None] = {}
        for source, channel in self._graph[query].reads.items():
            barrier = self._at.get(channel)
            if barrier is None:
                waits[channel] = None
                continue
            for position in positions.get(source) or [{}]:
                left = unread(position, barrier, self._since)
                if left != 0:
                    waits[channel] = max(left, waits.get(channel) or left)
        return waits

    def take_part(self, query: str, ends: Mapping[str, ChannelPosition]) -> None:
        """A query takes part. `ends`: where each channel that it writes ends with its snapshot."""
        self._at.update({channel: ends[channel] for channel in self._graph[query].writes})
        self._taken.add(query)


def held_at(barrier: ChannelPosition, end: ChannelPosition) -> ChannelPosition:
    """The end of an epoch that must not pass a barrier. A part that begins behind the barrier is left out."""
    return {part: min(at, barrier[part]) for part, at in end.items() if part in barrier}
