"""The two logs in a Spark checkpoint folder, as bytes: `offsets/N` and `commits/N` (pyspark 4.2 and 4.3).

    offsets/N   v1 \\n {"batchWatermarkMs":..,"batchTimestampMs":..,"conf":{..}} \\n one line per source
    commits/N   v1 or v2 \\n {"nextBatchWatermarkMs":..[,"stateUniqueIds":{operator: [[id, ..] per partition]}]}

Spark itself accepts a commits entry that was cut after its version line and stops at an empty one; here both are torn.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

NO_OFFSET = "-"
"""What Spark writes for a source that has no offset yet."""

TOPIC_IDS = "topic ids"
"""In a position of tidegate's Kafka source, beside its topics: the id of each. No topic's name has a blank."""

SKIPPED = "skipped records"
"""There too, where the epoch that ends in the position left lost records out: by topic and partition, how far."""


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
    """The entry, or None when it is missing or torn."""
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


def parse_commits(data: bytes | None) -> CommitsEntry | None:
    """The entry, or None when it is missing or torn."""
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
    """State ids in one textual form, compared by equality; None where the epoch has no state."""
    if not ids:
        return None
    return msgspec.json.encode({str(operator): value for operator, value in ids.items()}, order="sorted").decode()


def with_watermark(offsets: bytes, watermark_ms: int) -> bytes:
    """`offsets/N` as the entry of a no-data epoch after it: the same positions, a later watermark."""
    version, metadata, *positions = offsets.decode().split("\n")
    changed = {**msgspec.json.decode(metadata), "batchWatermarkMs": watermark_ms}
    return "\n".join([version, msgspec.json.encode(changed).decode(), *positions]).encode()


def goes_back(before: str | None, after: str | None) -> bool:
    """Whether a source's position went back, for the forms whose order is known.

    Known are a number (rate), an object with one number (files, where the digest of a list may stand beside it), and
    numbers by topic and partition (Kafka), where a partition that is gone counts as going back and a new one does not,
    and so does a topic whose id is another one; but what the later position says is skipped may do both. Others are
    never said to go back.
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
    """The newest entry of its own log that the position of a file source names; None for other sources."""
    value = None if position is None else _decode(position)
    match value:
        case {"logOffset": int(number)}:
            return number
        case _:
            return None


def is_whole_source_entry(data: bytes) -> bool:
    """Whether an entry below `sources/` ends as it should: a version line, then one JSON value a line.

    Spark 2.1 wanted a zero byte in front, which some sources still write.
    """
    lines = _lines(data.removeprefix(b"\0"), versions=("v1",))
    return bool(lines) and all(_is_position(line) for line in lines)


def same_position(before: str | None, after: str | None) -> bool:
    """Whether two positions are the same JSON value, however it is spelt."""
    if before is None or after is None:
        return before is after
    return _decode(before) == _decode(after)


def _by_place(position: Any) -> dict[tuple[str, ...], int]:
    """The numbers of a position whose order is known, by their place in it; empty for any other form."""
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
    if len(position) == 1 and all(isinstance(value, int) for value in position.values()):
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


def _beside(position: Any, name: str) -> dict[str, Any]:
    """What a position of tidegate's Kafka source says by topic beside the offsets: nothing of a topic that is gone."""
    found = cast("dict[str, Any]", position).get(name) if isinstance(position, dict) else None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _decode(position: str) -> Any:
    try:
        return msgspec.json.decode(position)
    except msgspec.DecodeError:
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
        value = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _is_position(line: str) -> bool:
    if line == NO_OFFSET:
        return True
    try:
        msgspec.json.decode(line)
    except msgspec.DecodeError:
        return False
    return True
