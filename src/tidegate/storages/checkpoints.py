"""The one place that opens the files of Spark's checkpoint, by the scheme of their folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidegate.extras import Extra, require
from tidegate.storages.checkpoint_files import CheckpointFiles
from tidegate.storages.local.checkpoint_files import LocalCheckpointFiles
from tidegate.storages.schemes import Folder, Scheme, Where


def open_checkpoint_files(root: Where) -> CheckpointFiles:
    """The files below this root: a path, or a URI. Sends no request to the storage yet.

    Raises SETTING_VALUE for a scheme without a storage, EXTRA_MISSING for one whose extra is not installed.
    """
    folder = Folder.of(root)
    return _CHECKPOINTS[folder.scheme](folder)


def _hdfs(folder: Folder) -> CheckpointFiles:
    from tidegate.storages.hdfs.checkpoint_files import (
        HdfsCheckpointFiles,  # only where it is needed: no command is to wait for it
    )

    return HdfsCheckpointFiles(folder)


def _s3(folder: Folder) -> CheckpointFiles:
    require(Extra.S3)
    from tidegate.storages.s3.checkpoint_files import S3CheckpointFiles

    return S3CheckpointFiles(folder)


_CHECKPOINTS: Mapping[Scheme, Callable[[Folder], CheckpointFiles]] = {
    Scheme.FILE: lambda folder: LocalCheckpointFiles(folder.path),
    Scheme.HDFS: _hdfs,
    Scheme.VIEWFS: _hdfs,
    Scheme.S3: _s3,
}
