"""How far a job has read its sources: the positions at the end of the newest done epoch of each query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from tidegate.checkpoints.job_layout import QUERIES, generation_folder
from tidegate.core.errors import TidegateError
from tidegate.core.json_formats import Unreadable, parsed
from tidegate.core.ledger import DECIDED, decode_decided, entry
from tidegate.core.spark_log import SKIPPED, TOPIC_IDS, positions_of
from tidegate.operate.status import QueryView
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder


class ReachedPosition(msgspec.Struct, frozen=True, kw_only=True):
    """The position of one query in one source, at the end of an epoch. `lines`: in words, for instance one for each
    topic."""

    query: str
    source: str
    epoch: int
    lines: tuple[str, ...]


def read_positions(job_folder: Folder, queries: Sequence[QueryView]) -> list[ReachedPosition]:
    """The positions of a job, by query. A query without a done epoch has none, nor one whose record cannot be read."""
    return [each for query in queries for each in _of_query(job_folder, query)]


def position_lines(position: str | None) -> list[str]:
    """A position as its log has it: by topic and partition, as an entry of the log of its files, or as a line of its
    ingest log. `position`: the source's own text; None if it has read nothing yet."""
    if position is None:
        return ["nothing read yet"]
    match _decoded(position):
        case {"logOffset": int(number)}:
            return [f"entry {number} of the log of its files"]
        case {"log": str(log), "line": int(line)}:
            return [f"line {line} of ingest log {log}"]
        case {**topics} if _are_topics(topics):
            return [_topic_line(each, topics[each], "at") for each in topics if each not in BESIDE_TOPICS]
        case _:
            return [position]


def skipped_lines(position: str | None) -> list[str]:
    """The lost records that the epoch which ends at this position has skipped, by topic; empty if there are none."""
    if position is None or SKIPPED not in position:
        return []
    try:
        skipped = parsed(position, _WithSkipped).skipped
    except Unreadable:  # another source has the same words in its positions
        return []
    return [_topic_line(topic, skips, "to") for topic, skips in skipped.items()]


class _SkippedTo(msgspec.Struct, frozen=True):
    to: int
    records: int | None = None

    def __str__(self) -> str:
        return f"{self.to} ({'an unknown number of' if self.records is None else self.records} records lost)"


class _WithSkipped(msgspec.Struct, frozen=True):
    skipped: dict[str, dict[str, _SkippedTo]] = msgspec.field(name=SKIPPED, default_factory=dict)


def _of_query(job_folder: Folder, query: QueryView) -> Iterator[ReachedPosition]:
    ledger = open_storage(generation_folder(job_folder / QUERIES / query.uid, query.generation))
    name = entry(DECIDED, query.finished)
    try:
        data = ledger.peek(name) if query.finished >= 0 else None
        offsets = None if data is None else decode_decided(data, ledger.where(name)).offsets
    except TidegateError:  # a view shows what can be read; recovery reports the damage
        return
    found: dict[str, list[str | None]] = {}
    for source, position in positions_of(query.sources, offsets):
        found.setdefault(source, []).append(position)
    for source, positions in found.items():
        yield ReachedPosition(
            query=query.uid,
            source=source,
            epoch=query.finished,
            # A source that a query reads twice has two positions, which are mostly equal.
            lines=tuple(dict.fromkeys(line for each in positions for line in position_lines(each))),
        )


def _topic_line(topic: str, partitions: Mapping[str, Any], word: str) -> str:
    """`word`: between a partition and its value."""
    values = (f"partition {each} {word} {partitions[each]}" for each in sorted(partitions, key=_in_order))
    return f"topic {topic}: {', '.join(values)}"


def _decoded(position: str) -> Any:
    try:
        return parsed(position, object)
    except Unreadable:
        return None


def _are_topics(found: Mapping[str, Any]) -> bool:
    topics = [offsets for topic, offsets in found.items() if topic not in BESIDE_TOPICS]
    return bool(topics) and all(isinstance(offsets, dict) for offsets in topics)


def _in_order(partition: str) -> tuple[int, str]:
    return len(partition), partition


BESIDE_TOPICS = (TOPIC_IDS, SKIPPED)
"""The keys beside the topics in a position of a Kafka source."""
