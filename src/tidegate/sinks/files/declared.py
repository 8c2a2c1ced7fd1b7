"""The options of a file sink as the program declares them: what its checks, description and commit phase read."""

from __future__ import annotations

import os
from typing import Protocol

from tidegate.core.errors import Code, TidegateError
from tidegate.sinks.files.formats import CSV_WITH_HEADER, FORMATS, FormatOfFiles
from tidegate.sinks.files.place import TargetPlace
from tidegate.sinks.files.shape import FileShape
from tidegate.storages.schemes import Folder


class DeclaredFileSink(Protocol):
    """The options of a `FileSink`."""

    uid: str
    folder: Folder
    place: TargetPlace
    shape: FileShape


def folder_of(path: str | os.PathLike[str]) -> Folder:
    """The folder that a path or a URI names. Raises SETTING_VALUE for a URI of an unknown kind."""
    folder = Folder.of(os.fspath(path))
    return Folder.of(os.path.abspath(folder.path)) if folder.is_local else folder


def format_of(uid: str, name: str) -> FormatOfFiles:
    """The format with this name, or OPTION_UNKNOWN."""
    if name not in FORMATS:
        raise _unfit(uid, f"format one of {', '.join(map(repr, FORMATS))}", f"format={name!r}")
    return FORMATS[name]


def with_header(uid: str, format: FormatOfFiles) -> FormatOfFiles:
    """The format with the names of the columns in each file, or OPTION_UNKNOWN."""
    if format.name != CSV_WITH_HEADER.name:
        raise _unfit(uid, f'header=True only with format="{CSV_WITH_HEADER.name}"', f"format={format.name!r}")
    return CSV_WITH_HEADER


def limit_of(uid: str, name: str, limit: int | None) -> int | None:
    """A limit on the size of files, or OPTION_UNKNOWN. None means no limit."""
    if limit is not None and limit <= 0:
        raise _unfit(uid, f"{name} above 0, or none", f"{name}={limit!r}")
    return limit


def _unfit(uid: str, expected: str, found: str) -> TidegateError:
    return TidegateError(
        Code.OPTION_UNKNOWN,
        expected=expected,
        found=found,
        where=f"sink {uid!r}",
        next_step=f"give the sink {expected}",
    )
