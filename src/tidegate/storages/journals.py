"""The one place that opens the journal of a query, by the scheme of its folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidegate.extras import Extra, require
from tidegate.storages.journal import Journal
from tidegate.storages.local.journal import LocalJournal
from tidegate.storages.schemes import Folder, Scheme, Where


def open_journal(folder: Where) -> Journal:
    """The journal in this folder: a path, or a URI that a task receives from its driver. Sends no request to the
    storage yet.

    Raises SETTING_VALUE for a scheme without a storage, EXTRA_MISSING for one whose extra is not installed.
    """
    opened = Folder.of(folder)
    return _JOURNALS[opened.scheme](opened)


def _hdfs(folder: Folder) -> Journal:
    from tidegate.storages.hdfs.journal import HdfsJournal  # only where it is needed: no command is to wait for it

    return HdfsJournal(folder)


def _s3(folder: Folder) -> Journal:
    require(Extra.S3)
    from tidegate.storages.s3.journal import S3Journal

    return S3Journal(folder)


_JOURNALS: Mapping[Scheme, Callable[[Folder], Journal]] = {
    Scheme.FILE: lambda folder: LocalJournal(folder.path),
    Scheme.HDFS: _hdfs,
    Scheme.VIEWFS: _hdfs,
    Scheme.S3: _s3,
}
