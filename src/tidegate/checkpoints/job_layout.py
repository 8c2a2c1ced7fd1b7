"""The layout of the jobs' folder: names and paths, for drivers and for commands that only read.

This module imports almost nothing, because every command that reads jobs loads it first.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from tidegate.core.ledger_names import START
from tidegate.core.names import is_name
from tidegate.disk.durable import storage_error

JOB_RECORD = "job.json"
QUERIES = "queries"
LOCKS = "locks"
CHECKPOINTS = "checkpoints"
RESTORES = "restores"
MANIFEST = "_metadata.json"

_GENERATION = re.compile(r"g([1-9][0-9]*)")


def job_names(root: Path) -> list[str]:
    """The names of the jobs in `root`, sorted; [] if the folder is missing. Unreadable folders are included: reading
    one raises its error.
    """
    return [name for name in _names(root) if is_name(name) and _is_there(root / name / JOB_RECORD)]


def unbegun_names(root: Path) -> list[str]:
    """The names in `root` that were locked but have no job yet: a start checks everything before it begins a job."""
    return [name for name in _names(root) if is_name(name) and _has_only_locks(root / name)]


def query_names(job_folder: Path) -> list[str]:
    """The uids of a job's queries that have a folder, sorted."""
    return [name for name in _names(job_folder / QUERIES) if is_name(name)]


def generation_folder(query_folder: Path, number: int) -> Path:
    """The folder of a generation of a query."""
    return query_folder / f"g{number}"


def generations(query_folder: Path) -> list[int]:
    """The generations of a query that have a folder, rising."""
    return sorted(int(found[1]) for name in _names(query_folder) if (found := _GENERATION.fullmatch(name)))


def newest_begun(query_folder: Path) -> int | None:
    """The number of the newest generation of a query that has a *start* record; None if no generation has one.

    A generation without *start* has done nothing yet.
    """
    begun = (each for each in reversed(generations(query_folder)) if _has_begun(query_folder, each))
    return next(begun, None)


def retained_numbers(job_folder: Path) -> list[int]:
    """The numbers of a job's retained checkpoints, ascending."""
    folder = job_folder / CHECKPOINTS
    return [number for number in checkpoint_folders(job_folder) if (folder / str(number) / MANIFEST).exists()]


def checkpoint_folders(job_folder: Path) -> list[int]:
    """The numbers below `checkpoints`, ascending, also those with a removed or not yet written manifest."""
    return sorted(int(name) for name in _names(job_folder / CHECKPOINTS) if name.isdigit())


def _has_begun(query_folder: Path, number: int) -> bool:
    return (generation_folder(query_folder, number) / START).is_file()


def _has_only_locks(folder: Path) -> bool:
    return _is_there(folder / LOCKS) and not _is_there(folder / JOB_RECORD)


def _is_there(path: Path) -> bool:
    """True if a file of this name exists, or if that cannot be checked."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _names(folder: Path) -> list[str]:
    """The sorted names in `folder`; empty if there is no such folder. Raises STORAGE_UNUSABLE if the folder cannot be
    listed for another reason.
    """
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise storage_error(error, folder, "list a folder") from error
