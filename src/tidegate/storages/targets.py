"""The one place that opens the files of a sink's target, by the scheme of its folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidegate.core.errors import Code, TidegateError
from tidegate.extras import Extra, require
from tidegate.storages.schemes import Folder, Scheme, Where
from tidegate.storages.target_files import TargetFiles


def open_target_files(root: Where) -> TargetFiles:
    """The files below this root, a URI. Sends no request to the storage yet.

    Raises SETTING_VALUE for a scheme without a storage, EXTRA_MISSING for one whose extra is not installed. A disk has
    files of its own (`tidegate.sinks.files.local_place`): what is renamed there has to be synced.
    """
    folder = Folder.of(root)
    if folder.scheme not in _TARGETS:
        raise TidegateError(
            Code.SETTING_VALUE,
            expected=f"a folder of one of these storages: {', '.join(scheme.value for scheme in _TARGETS)}",
            found=f"a folder of `{folder.scheme.value}:`",
            where=str(folder),
            next_step="give hdfs://host:port/path or s3://bucket/path",
        )
    return _TARGETS[folder.scheme](folder)


def _hdfs(folder: Folder) -> TargetFiles:
    from tidegate.storages.hdfs.target_files import HdfsTargetFiles  # only where needed: no command is to wait for it

    return HdfsTargetFiles(folder)


def _s3(folder: Folder) -> TargetFiles:
    require(Extra.S3)
    from tidegate.storages.s3.target_files import S3TargetFiles

    return S3TargetFiles(folder)


_TARGETS: Mapping[Scheme, Callable[[Folder], TargetFiles]] = {
    Scheme.HDFS: _hdfs,
    Scheme.VIEWFS: _hdfs,
    Scheme.S3: _s3,
}
