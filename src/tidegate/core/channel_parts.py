"""The parts of a channel, and positions in it. There is one part for each generation of its writer.

A restore gives up what the older generations have written behind the savepoint. So a job that was restored reads only
the parts of the generations since then: *live* parts. Its position keeps the older ones, and they never move.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegate.core.json_formats import Unreadable, parsed

ChannelPosition = Mapping[str, int]
"""For each part of a channel, the number of the next row."""


def part_of(channel: str, generation: int) -> str:
    """The part of a channel that a generation of its writer fills. No other channel has a part of this name: a query
    that reads another one under the uid of its source is found out.
    """
    return f"{channel}.{generation}.0"


def generation_of(part: str) -> int:
    """The generation of the writer that fills this part."""
    return int(part.split(".")[1])


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


def live(position: ChannelPosition, since: int) -> ChannelPosition:
    """The parts of the generations from `since` on."""
    return {part: at for part, at in position.items() if generation_of(part) >= since}


def is_behind(position: ChannelPosition, part: str) -> bool:
    """True if a reader at this position still has to read a part: it is in it, or newer than all that are in it."""
    return part in position or generation_of(part) > max(map(generation_of, position), default=-1)


def unread(position: ChannelPosition, ends: ChannelPosition, since: int) -> int:
    """How many rows there are between a reader's position and the ends of a channel: negative if the reader is ahead in
    a part.
    """
    rows = [at - position.get(part, 0) for part, at in live(ends, since).items() if is_behind(position, part)]
    ahead = [-at for part, at in live(position, since).items() if at and part not in ends]
    return min([0, *rows, *ahead]) or sum(rows)


def least(positions: Sequence[ChannelPosition]) -> ChannelPosition:
    """For each part, the number of the first row that is needed behind any of the positions."""
    parts = {part for each in positions for part in each}
    return {part: min(each.get(part, 0) for each in positions if is_behind(each, part)) for part in parts}
