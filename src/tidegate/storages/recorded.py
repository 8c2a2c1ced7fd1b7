"""Reads a record of the catalogue (`core.records`) from a storage."""

from __future__ import annotations

from typing import TypeVar

from tidegate.core.records import Value, decode
from tidegate.storages.storage import Storage

RecordT = TypeVar("RecordT", bound=Value)


def record_in(storage: Storage, kind: type[RecordT], name: str) -> RecordT | None:
    """The record of this kind and name; None if it is absent.

    Raises RECORD_CORRUPT or RECORD_NEWER with the place of the record, and storage errors.
    """
    data = storage.read(name)
    return None if data is None else decode(kind, data, storage.where(name))
