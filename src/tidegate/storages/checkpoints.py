"""The one place that opens the files of Spark's checkpoint, by the scheme of their folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tidegate.storages.checkpoint_files import CheckpointFiles
from tidegate.storages.local.checkpoint_files import LocalCheckpointFiles
from tidegate.storages.schemes import Scheme, StoragePlace, place_of


def open_checkpoint_files(root: str | Path) -> CheckpointFiles:
    """The files below this root: a path, or a URI. Sends no request to the storage yet.

    Raises SETTING_VALUE for a scheme without a storage.
    """
    place = place_of(root)
    return _CHECKPOINTS[place.scheme](place)


_CHECKPOINTS: Mapping[Scheme, Callable[[StoragePlace], CheckpointFiles]] = {
    Scheme.FILE: lambda place: LocalCheckpointFiles(place.path)
}
