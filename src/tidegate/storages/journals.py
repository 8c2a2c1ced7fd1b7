"""The one place that opens the journal of a query, by the scheme of its folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tidegate.storages.journal import Journal
from tidegate.storages.local.journal import LocalJournal
from tidegate.storages.schemes import Scheme, StoragePlace, place_of


def open_journal(folder: str | Path) -> Journal:
    """The journal in this folder: a path, or a URI that a task receives from its driver. Sends no request to the
    storage yet.

    Raises SETTING_VALUE for a scheme without a storage.
    """
    place = place_of(folder)
    return _JOURNALS[place.scheme](place)


_JOURNALS: Mapping[Scheme, Callable[[StoragePlace], Journal]] = {Scheme.FILE: lambda place: LocalJournal(place.path)}
