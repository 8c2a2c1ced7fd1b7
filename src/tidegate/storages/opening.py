"""The one place that opens a storage of records, by the scheme of its URI."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tidegate.storages.local.storage import LocalStorage
from tidegate.storages.schemes import Scheme, StoragePlace, place_of
from tidegate.storages.storage import Storage


def open_storage(where: str | Path) -> Storage:
    """The storage with the root `where`: a path, or a URI. Sends no request to the storage yet.

    Raises SETTING_VALUE for a scheme without a storage.
    """
    place = place_of(where)
    return _STORAGES[place.scheme](place)


_STORAGES: Mapping[Scheme, Callable[[StoragePlace], Storage]] = {Scheme.FILE: lambda place: LocalStorage(place.path)}
