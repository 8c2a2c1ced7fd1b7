"""What a commit of the table's log says of data files: the ones that it adds, and the ones that it removes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias
from urllib.parse import unquote

from deltalake.transaction import AddAction, RemoveAction

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import Committable
from tidegate.sinks.data_files import final_path
from tidegate.sinks.delta.live_files import LiveFile
from tidegate.sinks.files.hive_folders import NULL
from tidegate.sinks.files.parts import parts_of

FileAction: TypeAlias = AddAction | RemoveAction


def added(committables: Iterable[Committable], *, data_change: bool = True) -> list[FileAction]:
    """The published files of these transactions. `data_change`: False if their rows were in the table before."""
    return [action for each in committables for action in _added(each, data_change)]


def removed(files: Iterable[LiveFile], where: str, *, data_change: bool = True) -> list[FileAction]:
    """Files that leave the table. `data_change`: False if their rows stay. `where`: the table.

    Raises SINK_UNUSABLE for a file whose removal would not be taken for one of this file.
    """
    return [RemoveAction(_removable(each, where), data_change, _now()) for each in files]


def values_in(folder: str) -> Mapping[str, str | None]:
    """The values of the partition columns in the name of a folder, in their order."""
    levels: Sequence[Sequence[str]] = [level.partition("=")[::2] for level in folder.split("/")] if folder else []
    return {unquote(name): None if value == NULL else unquote(value) for name, value in levels}


def _added(committable: Committable, data_change: bool) -> list[AddAction]:
    stats = committable.handle["stats"].split("\n")
    return [
        AddAction(
            path=final_path(committable, part),
            size=part.seal.size_bytes,
            partition_values=values_in(part.folder),
            modification_time=_now(),
            data_change=data_change,
            stats=stats[part.number],
        )
        for part in parts_of(committable)
    ]


def _removable(file: LiveFile, where: str) -> str:
    if not file.is_removable:
        raise TidegateError(
            Code.SINK_UNUSABLE,
            expected="data files below the table, with paths that the sink can write as another writer did",
            found=repr(file.in_log),
            where=where,
            next_step="write the rows of this file again with the tool that wrote it (OPTIMIZE, or a copy of the "
            "table); then start again",
        )
    return file.path


def _now() -> int:
    return time.time_ns() // 1_000_000
