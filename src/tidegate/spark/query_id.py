"""Spark's `metadata` file: one random query id. Tidegate does not use it, but Spark does not start without it."""

from __future__ import annotations

from uuid import uuid4

import msgspec

from tidegate.checkpoints.spark_layout import COMMITS, METADATA, OFFSETS, checksum_of, entry_numbers
from tidegate.core.json_formats import Unreadable, parsed
from tidegate.storages.storage import Storage


def mend_query_id(checkpoint: Storage) -> None:
    """Write a new id if the file is torn, or missing from a checkpoint with entries. Before Spark starts."""
    data = checkpoint.read(METADATA)
    if _is_whole(data) or (data is None and not _has_entries(checkpoint)):
        return
    checkpoint.delete(checksum_of(METADATA))
    checkpoint.replace(METADATA, msgspec.json.encode({"id": str(uuid4())}))


def _is_whole(data: bytes | None) -> bool:
    try:
        return data is not None and bool(parsed(data, dict[str, str]).get("id"))
    except Unreadable:
        return False


def _has_entries(checkpoint: Storage) -> bool:
    return any(entry_numbers(checkpoint.list(log)) for log in (OFFSETS, COMMITS))
