"""Spark's entries as a restore writes them: those of the saved epoch, for changed state, sources or settings.

Recovery never needs them: it restores the decided bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tidegate.core.json_formats import parsed
from tidegate.core.spark_log import NO_OFFSET, parse_offsets


def with_settings(offsets: bytes, settings: Mapping[str, str]) -> bytes:
    """`offsets/N` with other settings: a restart takes them from the log, not from the session."""
    version, metadata, *positions = offsets.decode().split("\n")
    found = parsed(metadata, dict[str, Any])
    changed = {**found, "conf": {**found.get("conf", {}), **settings}}
    return "\n".join([version, msgspec.json.encode(changed).decode(), *positions]).encode()


def state_ids_of(commits: bytes) -> dict[int, list[list[str]]]:
    """The ids of the state files in a complete entry: by operator, by partition, one for each store."""
    metadata = parsed(commits.decode().split("\n")[1], dict[str, Any])
    ids: dict[str, list[list[str]]] = metadata.get("stateUniqueIds") or {}
    return {int(operator): partitions for operator, partitions in ids.items()}


def with_state_ids(commits: bytes, ids: Mapping[int, Sequence[Sequence[str]]] | None) -> bytes:
    """`commits/N` for state in other files: in version 2 with their ids, in version 1, which has no ids, with None."""
    metadata = parsed(commits.decode().split("\n")[1], dict[str, Any])
    metadata.pop("stateUniqueIds", None)
    if ids is not None:
        metadata["stateUniqueIds"] = {str(operator): partitions for operator, partitions in ids.items()}
    return b"\n".join([b"v1" if ids is None else b"v2", msgspec.json.encode(metadata)])


def with_operators(commits: bytes, places: Mapping[int, int]) -> bytes:
    """The content of `commits/N` after operators were renumbered. An operator without a new number is left out.

    `places`: the new number for each old number. Raises ValueError for an invalid entry.
    """
    version, metadata = commits.decode().split("\n")
    found = parsed(metadata, dict[str, Any])
    ids: dict[str, object] | None = found.get("stateUniqueIds")
    if ids is None:
        return commits
    kept = {str(now): ids[str(before)] for before, now in places.items() if str(before) in ids}
    return "\n".join([version, msgspec.json.encode({**found, "stateUniqueIds": kept}).decode()]).encode()


def with_next_watermark(commits: bytes, watermark_ms: int) -> bytes:
    """`commits/N` with another watermark of the next epoch."""
    version, metadata = commits.decode().split("\n")
    changed = {**parsed(metadata, dict[str, Any]), "nextBatchWatermarkMs": watermark_ms}
    return "\n".join([version, msgspec.json.encode(changed).decode()]).encode()


def with_sources(offsets: bytes, places: Sequence[int | None]) -> bytes:
    """`offsets/N` for other sources. `places`: by position in the new plan, the position of the same source in the old
    one; None for a source that begins again. Raises ValueError for an invalid entry.
    """
    found = parse_offsets(offsets)
    if found is None:
        raise ValueError("torn")
    return with_positions(offsets, [None if place is None else found.positions[place] for place in places])


def with_positions(offsets: bytes, positions: Sequence[str | None]) -> bytes:
    """`offsets/N` with other positions; None for a source that begins again."""
    version, metadata, *_ = offsets.decode().split("\n")
    return "\n".join([version, metadata, *(NO_OFFSET if each is None else each for each in positions)]).encode()
