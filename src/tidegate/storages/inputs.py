"""The one place that opens the files of other programs, by the scheme of their folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidegate.extras import Extra, require
from tidegate.storages.input_files import InputFiles
from tidegate.storages.schemes import Folder, Scheme

INPUT_SCHEMES = frozenset({Scheme.HDFS, Scheme.VIEWFS, Scheme.S3})
"""A disk has files of its own (`tidegate.sources.files.listing`)."""


def open_input_files(root: Folder) -> InputFiles:
    """The files below this root, whose scheme is one of `INPUT_SCHEMES`. Sends no request to the storage yet.

    Raises EXTRA_MISSING for a storage whose extra is not installed.
    """
    return _INPUTS[root.scheme](root)


def _hdfs(folder: Folder) -> InputFiles:
    from tidegate.storages.hdfs.input_files import HdfsInputFiles  # only where needed: no command is to wait for it

    return HdfsInputFiles(folder)


def _s3(folder: Folder) -> InputFiles:
    require(Extra.S3)
    from tidegate.storages.s3.input_files import S3InputFiles

    return S3InputFiles(folder)


_INPUTS: Mapping[Scheme, Callable[[Folder], InputFiles]] = {
    Scheme.HDFS: _hdfs,
    Scheme.VIEWFS: _hdfs,
    Scheme.S3: _s3,
}
