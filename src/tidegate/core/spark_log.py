"""The two logs in a Spark checkpoint folder, as bytes: `offsets/N` and `commits/N` (pyspark 4.2 and 4.3).

    offsets/N   v1 \\n {"batchWatermarkMs":..,"batchTimestampMs":..,"conf":{..}} \\n one line per source
    commits/N   v1 or v2 \\n {"nextBatchWatermarkMs":..[,"stateUniqueIds":{operator: [[id, ..] per partition]}]}

Spark itself accepts a commits entry that was cut after its version line and stops at an empty one; here both are torn.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from tidegate.core.channel_parts import is_part
from tidegate.core.json_formats import Unreadable, parsed

NO_OFFSET = "-"
"""Spark's text for a source that has no offset yet."""

TOPIC_IDS = "topic ids"
"""Key of the topic ids in a position of tidegate's Kafka source. No topic's name contains a blank."""

SKIPPED = "skipped records"
"""Key of the skipped lost records in such a position: by topic and partition, the offset up to which they were
skipped.
"""


class OffsetsEntry(msgspec.Struct, frozen=True):
    """A whole `offsets/N`: its watermark in milliseconds, the settings in force, one position per source."""

    watermark_ms: int
    conf: dict[str, str]
    positions: tuple[str | None, ...]


class CommitsEntry(msgspec.Struct, frozen=True):
    """A whole `commits/N`: the watermark of the next epoch, and the ids of its state files in a canonical form."""

    next_watermark_ms: int
    state_ids: str | None


def parse_offsets(data: bytes | None) -> OffsetsEntry | None:
    """The entry, or None if it is missing or torn."""
    lines = _lines(data, versions=("v1",))
    if lines is None or len(lines) < 2:
        return None
    metadata = _json_object(lines[0])
    if metadata is None or not all(_is_position(line) for line in lines[1:]):
        return None
    return OffsetsEntry(
        watermark_ms=int(metadata.get("batchWatermarkMs", 0)),
        conf={str(key): str(value) for key, value in metadata.get("conf", {}).items()},
        positions=tuple(None if line == NO_OFFSET else line for line in lines[1:]),
    )


def positions_of(sources: Sequence[str], data: bytes | None) -> list[tuple[str, str | None]]:
    """The uid and the position of each source, by its place in Spark's plan: a source that a query reads twice occurs
    twice. [] for an entry that is missing or torn.
    """
    entry = parse_offsets(data)
    return [] if entry is None else list(zip(sources, entry.positions, strict=False))


def parse_commits(data: bytes | None) -> CommitsEntry | None:
    """The entry, or None if it is missing or torn."""
    lines = _lines(data, versions=("v1", "v2"))
    if lines is None or len(lines) != 1:
        return None
    metadata = _json_object(lines[0])
    if metadata is None:
        return None
    return CommitsEntry(
        next_watermark_ms=int(metadata.get("nextBatchWatermarkMs", 0)),
        state_ids=canonical_state_ids(metadata.get("stateUniqueIds")),
    )


def canonical_state_ids(ids: dict[str, Any] | None) -> str | None:
    """State ids in one textual form, compared by equality; None if the epoch has no state."""
    if not ids:
        return None
    return msgspec.json.encode({str(operator): value for operator, value in ids.items()}, order="sorted").decode()


def with_watermark(offsets: bytes, watermark_ms: int) -> bytes:
    """`offsets/N` as the entry of a no-data epoch after it: the same positions, a later watermark."""
    version, metadata, *positions = offsets.decode().split("\n")
    changed = {**parsed(metadata, dict[str, Any]), "batchWatermarkMs": watermark_ms}
    return "\n".join([version, msgspec.json.encode(changed).decode(), *positions]).encode()


def goes_back(before: str | None, after: str | None) -> bool:
    """True if a source's position went back. Only for forms with a known order.

    Known forms are a number (rate), an object with one number (files, possibly with the digest of a list), numbers by
    the parts of a channel, and numbers by topic and partition (Kafka). A missing part or partition counts as going
    back, a new one does not. A topic with another id counts as going back. Both are allowed for records that the later
    position lists as skipped. Positions of other forms never go back.
    """
    if before is None:
        return False
    if after is None:
        return True
    old, new = _decode(before), _decode(after)
    reached, ids, skipped = _by_place(new), _beside(new, TOPIC_IDS), _beside(new, SKIPPED)
    left_out = {(topic, partition) for topic, partitions in skipped.items() for partition in partitions}
    return any(
        place not in reached or (reached[place] < count and place not in left_out)
        for place, count in _by_place(old).items()
    ) or any(
        ids.get(topic, topic_id) != topic_id and topic not in skipped
        for topic, topic_id in _beside(old, TOPIC_IDS).items()
    )


def log_offset(position: str | None) -> int | None:
    """The newest entry of its own log in the position of a file source; None for other sources."""
    value = None if position is None else _decode(position)
    match value:
        case {"logOffset": int(number)}:
            return number
        case _:
            return None


def list_name(position: str | None) -> str | None:
    """The name of the list of files in which a position of tidegate's file source ends; None for other sources."""
    value = None if position is None else _decode(position)
    match value:
        case {"logOffset": int(number), "digest": str(digest)}:
            return named_list(number, digest)
        case _:
            return None


def named_list(number: int, digest: str) -> str:
    """The name of a list of files in a source's own log: no two lists have the same one."""
    return f"{number}-{digest}"


def source_entry(name: str) -> int | None:
    """The number of an entry of a source's own log; None for another file.

    Spark's own: `7`, or `9.compact` after Spark has merged older ones. Tidegate's: `7-<digest>`.
    """
    found = _SOURCE_ENTRY.fullmatch(name)
    return None if found is None else int(found[1])


def is_entry_of_spark(name: str) -> bool:
    """True if Spark's own file source names an entry of its log so."""
    return source_entry(name) is not None and "-" not in name


def is_whole_source_entry(data: bytes) -> bool:
    """True if an entry below `sources/` is complete: a version line, then one JSON value on each line.

    Spark 2.1 needed a zero byte in front, which some sources still write.
    """
    lines = _lines(data.removeprefix(b"\0"), versions=("v1",))
    return bool(lines) and all(_is_position(line) for line in lines)


def same_position(before: str | None, after: str | None) -> bool:
    """True if two positions are the same JSON value, in any notation."""
    if before is None or after is None:
        return before is after
    return _decode(before) == _decode(after)


def _by_place(position: Any) -> dict[tuple[str, ...], int]:
    """The numbers of a position with a known order, by their place in it; empty for any other form."""
    match position:
        case bool():
            return {}
        case int():
            return {(): position}
        case dict():
            return _by_key(cast("dict[str, Any]", position))
        case _:
            return {}


def _by_key(position: dict[str, Any]) -> dict[tuple[str, ...], int]:
    match position:
        case {"logOffset": int(number), "digest": str()}:  # of a list of files, which a digest names beside its number
            return {("logOffset",): number}
        case _:
            pass
    if position and all(isinstance(value, int) for value in position.values()) and _is_ordered(position):
        return {(key,): int(value) for key, value in position.items()}
    found: dict[tuple[str, ...], int] = {}
    for topic, partitions in ((name, value) for name, value in position.items() if name not in (TOPIC_IDS, SKIPPED)):
        if not isinstance(partitions, dict):
            return {}
        for partition, offset in cast("dict[str, Any]", partitions).items():
            if not (partition.isdigit() and isinstance(offset, int)):
                return {}
            found[topic, partition] = offset
    return found


def _is_ordered(numbers: dict[str, int]) -> bool:
    """True for one number, and for the numbers of a channel's parts. Others may be a date or a checksum."""
    return len(numbers) == 1 or all(map(is_part, numbers))


def _beside(position: Any, name: str) -> dict[str, Any]:
    """The values by topic beside the offsets in a position of tidegate's Kafka source; nothing for a missing topic."""
    found = cast("dict[str, Any]", position).get(name) if isinstance(position, dict) else None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _decode(position: str) -> Any:
    try:
        return parsed(position, object)
    except Unreadable:
        return position


def _lines(data: bytes | None, versions: tuple[str, ...]) -> list[str] | None:
    if data is None:
        return None
    try:
        version, *lines = data.decode().split("\n")
    except UnicodeDecodeError:
        return None
    return lines if version in versions else None


def _json_object(line: str) -> dict[str, Any] | None:
    try:
        return parsed(line, dict[str, Any])
    except Unreadable:
        return None


_SOURCE_ENTRY = re.compile(r"(\d+)(?:\.compact|-[0-9a-f]{16})?")


def _is_position(line: str) -> bool:
    if line == NO_OFFSET:
        return True
    try:
        parsed(line, object)
    except Unreadable:
        return False
    return True
