"""The parts of a channel, and positions in it.

An embedded channel has one part for each generation of its writer; a channel over Kafka has one for each generation and
partition of the topic.

A restore gives up what the older generations have written behind the savepoint. So a job that was restored reads only
the parts of the generations since then: *live* parts. A checkpoint with rows in flight keeps the older ones alive up to
its barrier. The position of a reader keeps all older parts; those that are not live never move.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidegate.core.json_formats import Unreadable, parsed

ChannelPosition = Mapping[str, int]
"""For each part of a channel, the number of the next row."""


def part_of(channel: str, generation: int, number: int = 0) -> str:
    """The part of this number that a generation of the writer fills. No other channel has a part of this name: a query
    that reads another one under the uid of its source is found out.
    """
    return f"{channel}.{generation}.{number}"


def generation_of(part: str) -> int:
    """The generation of the writer that fills this part."""
    return int(part.split(".")[1])


def number_of(part: str) -> int:
    """The number of this part among those of its generation."""
    return int(part.split(".")[2])


def is_part(name: str) -> bool:
    """True for the name of a part of any channel."""
    channel, *numbers = name.split(".")
    return bool(channel) and len(numbers) == 2 and all(map(str.isdigit, numbers))


def is_part_of(channel: str, part: str) -> bool:
    """True for the name of a part of this channel."""
    return is_part(part) and part.startswith(f"{channel}.")


def position_in(text: str, channel: str) -> ChannelPosition | None:
    """The position in a text; None if it is not a position in this channel."""
    try:
        found = parsed(text, dict[str, int])
    except Unreadable:
        return None
    return found if found and all(is_part_of(channel, part) for part in found) else None


@dataclass(frozen=True, slots=True)
class LiveParts:
    """The parts that the readers of a job read. `since`: the generation that its newest restore has opened, 0 without
    one. `until`: for each older part that has rows in flight, the row after the last one of them.
    """

    since: int = 0
    until: ChannelPosition = field(default_factory=dict[str, int])

    def of(self, position: ChannelPosition) -> ChannelPosition:
        """What of a position is live."""
        return {
            part: at if generation_of(part) >= self.since else min(at, self.until[part])
            for part, at in position.items()
            if generation_of(part) >= self.since or part in self.until
        }

    def left(self, position: ChannelPosition) -> ChannelPosition:
        """What of a position is live, without the older parts whose rows in flight are read."""
        return {
            part: at
            for part, at in self.of(position).items()
            if generation_of(part) >= self.since or at < self.until[part]
        }

    def unread(self, position: ChannelPosition, ends: ChannelPosition) -> int:
        """How many rows there are between a reader's position and the ends of a channel: negative if the reader is
        ahead in a part. Without a position it begins behind what is in flight.
        """
        stands = self.of(position)
        left = {part: at for part, at in self.of(ends).items() if position or generation_of(part) >= self.since}
        rows = [at - stands.get(part, 0) for part, at in left.items() if is_behind(position, part)]
        ahead = [-at for part, at in stands.items() if at and part not in ends]
        return min([0, *rows, *ahead]) or sum(rows)


ALL_LIVE = LiveParts()
"""The parts of a job that was never restored."""


def is_behind(position: ChannelPosition, part: str) -> bool:
    """True if a reader at this position still has to read a part: it is in it, or not older than the newest that is.
    A generation gets a part more when its topic gets a partition more.
    """
    return part in position or generation_of(part) >= max(map(generation_of, position), default=-1)


def least(positions: Sequence[ChannelPosition]) -> ChannelPosition:
    """For each part, the number of the first row that is needed behind any of the positions."""
    parts = {part for each in positions for part in each}
    return {part: min(each.get(part, 0) for each in positions if is_behind(each, part)) for part in parts}


def in_flight(position: ChannelPosition, barrier: ChannelPosition) -> ChannelPosition:
    """The first row in flight of each part that has any: they are between the reader's position and the barrier."""
    rows = {part: position.get(part, 0) for part in barrier if is_behind(position, part)}
    return {part: at for part, at in rows.items() if at < barrier[part]}
