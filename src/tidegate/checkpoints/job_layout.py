"""The layout of the jobs' folder: names and paths, for drivers and for commands that only read.

This module imports almost nothing, because every command that reads jobs loads it first.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from tidegate.core.errors import TidegateError
from tidegate.core.ledger_names import START
from tidegate.core.names import is_name
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Storage

JOB_RECORD = "job.json"
QUERIES = "queries"
LOCKS = ("lease", "locks")
"""The folder of a job's lease has one of these names: terms are in the first, file locks in the second."""

CHECKPOINTS = "checkpoints"
RESTORES = "restores"
GENERATIONS = "generation"
CHANNELS = "channels"
MANIFEST = "_metadata.json"
HELD_FILES = "held"

_GENERATION = re.compile(r"g([1-9][0-9]*)")


def job_names(root: Folder) -> list[str]:
    """The names of the jobs in `root`, sorted; [] if the folder is missing. Unreadable folders are included: reading
    one raises its error.
    """
    storage = open_storage(root)
    return [name for name in _named(storage) if _is_there(storage, f"{name}/{JOB_RECORD}")]


def has_job(root: Folder, name: str) -> bool:
    """True if `root` has a job of this name; False also if that cannot be checked."""
    try:
        return open_storage(root).look(f"{name}/{JOB_RECORD}") is not None
    except TidegateError:
        return False


def unbegun_names(root: Folder, begun: Collection[str]) -> list[str]:
    """The names in `root` that were locked but have no job yet: a start checks everything before it begins a job.
    `begun`: the names of the jobs.
    """
    storage = open_storage(root)
    return [name for name in _named(storage) if name not in begun and _has_locks(storage, name)]


def query_names(job_folder: Folder) -> list[str]:
    """The uids of a job's queries that have a folder, sorted."""
    return _named(open_storage(job_folder), QUERIES)


def generation_folder(query_folder: Folder, number: int) -> Folder:
    """The folder of a generation of a query."""
    return query_folder / f"g{number}"


def generation_number(folder: Folder) -> int:
    """The number of the generation whose folder this is."""
    return int(folder.name.removeprefix("g"))


def generations(query_folder: Folder) -> list[int]:
    """The generations of a query that have a folder, rising."""
    names = open_storage(query_folder).folders("")
    return sorted(int(found[1]) for name in names if (found := _GENERATION.fullmatch(name)))


def newest_begun(query_folder: Folder) -> int | None:
    """The number of the newest generation of a query that has a *start* record; None if no generation has one.

    A generation without *start* has done nothing yet.
    """
    begun = (each for each in reversed(generations(query_folder)) if _has_begun(query_folder, each))
    return next(begun, None)


def retained_numbers(job_folder: Folder) -> list[int]:
    """The numbers of a job's retained checkpoints, ascending."""
    storage = open_storage(job_folder)
    numbers = checkpoint_folders(job_folder)
    return [number for number in numbers if storage.look(f"{CHECKPOINTS}/{number}/{MANIFEST}") is not None]


def checkpoint_folders(job_folder: Folder) -> list[int]:
    """The numbers below `checkpoints`, ascending, also those with a removed or not yet written manifest."""
    return sorted(int(name) for name in open_storage(job_folder).folders(CHECKPOINTS) if name.isdigit())


def held_folder(job_folder: Folder, name: str, query: str) -> Folder:
    """The files that a retained checkpoint of a job with channels holds of a query. `name`: that of its folder."""
    return job_folder / CHECKPOINTS / HELD_FILES / name / query


def _has_begun(query_folder: Folder, number: int) -> bool:
    return open_storage(generation_folder(query_folder, number)).look(START) is not None


def _has_locks(storage: Storage, job: str) -> bool:
    return any(name in LOCKS for name in storage.folders(job))


def _is_there(storage: Storage, name: str) -> bool:
    """True if a record of this name exists, or if that cannot be checked."""
    try:
        return storage.look(name) is not None
    except TidegateError:
        return True


def _named(storage: Storage, folder: str = "") -> list[str]:
    """The folders in `folder` with a name of a job or a query, sorted."""
    return [name for name in storage.folders(folder) if is_name(name)]
