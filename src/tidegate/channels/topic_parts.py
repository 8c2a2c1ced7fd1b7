"""The parts of a channel over Kafka: which offset of a topic the number of a row is.

There is a part for each generation of the writer and each partition of the topic. Row 0 of a part is at the offset
where its generation begins. A number may belong to no row: to the marker of a transaction, or to a row that was
aborted. So the numbers tell at most how many rows there are, and the order is that of the partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from tidegate.core.channel_parts import ChannelPosition, generation_of, number_of, part_of
from tidegate.core.records import ChannelBegin
from tidegate.sources.kafka.offsets import OffsetRange

OffsetByPartition = Mapping[int, int]
"""For each partition of the topic of a channel, an offset."""


class TopicParts:
    """The parts of one channel. `begins`: for each generation of its writer that has begun, where."""

    def __init__(self, channel: str, begins: Mapping[int, ChannelBegin]) -> None:
        self._channel = channel
        self._begins = dict(sorted(begins.items()))

    def position(self, at: OffsetByPartition) -> ChannelPosition:
        """The position at these offsets of the topic of the newest generation: the row after the last one of each part.
        An older generation ends where the next one begins. A part without a row is left out.
        """
        found: dict[str, int] = {}
        for left, entered in pairwise(self._begins.values()):
            if left.topic_id == entered.topic_id:
                found |= self._of(left, {int(number): offset for number, offset in entered.offsets.items()})
        for newest in list(self._begins.values())[-1:]:
            found |= self._of(newest, at)
        return {part: row for part, row in found.items() if row > 0}

    def offset(self, part: str, row: int) -> int:
        """The offset of a row in its partition."""
        return _begin(self._begins[generation_of(part)], number_of(part)) + row

    def ranges(self, begin: ChannelPosition, end: ChannelPosition) -> list[OffsetRange]:
        """The ranges of the topic between two positions, of the oldest generation first."""
        wanted = sorted((generation_of(part), number_of(part), part) for part in end)
        return [
            OffsetRange(
                self._begins[generation].topic,
                number,
                self.offset(part, begin.get(part, 0)),
                self.offset(part, end[part]),
                self._begins[generation].topic_id,
            )
            for generation, number, part in wanted
            if begin.get(part, 0) < end[part]
        ]

    def _of(self, begin: ChannelBegin, at: OffsetByPartition) -> ChannelPosition:
        return {
            part_of(self._channel, begin.generation, number): offset - _begin(begin, number)
            for number, offset in at.items()
        }


def _begin(begin: ChannelBegin, number: int) -> int:
    return begin.offsets.get(str(number), 0)
