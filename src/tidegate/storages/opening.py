"""The one place that opens a storage of records, by the scheme of its URI."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidegate.extras import Extra, require
from tidegate.storages.local.storage import LocalStorage
from tidegate.storages.schemes import Folder, Scheme, Where
from tidegate.storages.storage import Storage


def open_storage(where: Where) -> Storage:
    """The storage with the root `where`: a path, or a URI. Sends no request to the storage yet.

    Raises SETTING_VALUE for a scheme without a storage, EXTRA_MISSING for one whose extra is not installed.
    """
    folder = Folder.of(where)
    return _STORAGES[folder.scheme](folder)


def _s3(folder: Folder) -> Storage:
    require(Extra.S3)
    from tidegate.storages.s3.storage import S3Storage

    return S3Storage(folder)


def _hdfs(folder: Folder) -> Storage:
    from tidegate.storages.hdfs.storage import HdfsStorage  # only where it is needed: no command is to wait for it

    return HdfsStorage(folder)


_STORAGES: Mapping[Scheme, Callable[[Folder], Storage]] = {
    Scheme.FILE: lambda folder: LocalStorage(folder.path),
    Scheme.S3: _s3,
    Scheme.HDFS: _hdfs,
    Scheme.VIEWFS: _hdfs,
}
