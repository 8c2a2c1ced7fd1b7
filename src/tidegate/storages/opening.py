"""The one place that opens a storage of records, by the scheme of its URI."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidegate.extras import Extra, require
from tidegate.storages.local.storage import LocalStorage
from tidegate.storages.schemes import Folder, Scheme, Where
from tidegate.storages.storage import Storage


def open_storage(where: Where, answer_seconds: float | None = None) -> Storage:
    """The storage with the root `where`: a path, or a URI. Sends no request to the storage yet.

    `answer_seconds`: how long one request to a server waits for its answer before it is tried again; None: as long as
    the storage's own default. A disk has no such limit.

    Raises SETTING_VALUE for a scheme without a storage, EXTRA_MISSING for one whose extra is not installed.
    """
    folder = Folder.of(where)
    return _STORAGES[folder.scheme](folder, answer_seconds)


def _s3(folder: Folder, answer_seconds: float | None) -> Storage:
    require(Extra.S3)
    from tidegate.storages.s3.bucket import S3Bucket
    from tidegate.storages.s3.storage import S3Storage

    return S3Storage(folder, S3Bucket(folder.authority, answer_seconds))


def _hdfs(folder: Folder, answer_seconds: float | None) -> Storage:
    # only where it is needed: no command is to wait for it
    from tidegate.storages.hdfs.client import Waits
    from tidegate.storages.hdfs.storage import HdfsStorage

    return HdfsStorage(folder, Waits() if answer_seconds is None else Waits(call_seconds=answer_seconds))


_STORAGES: Mapping[Scheme, Callable[[Folder, float | None], Storage]] = {
    Scheme.FILE: lambda folder, _: LocalStorage(folder.path),
    Scheme.S3: _s3,
    Scheme.HDFS: _hdfs,
    Scheme.VIEWFS: _hdfs,
}
