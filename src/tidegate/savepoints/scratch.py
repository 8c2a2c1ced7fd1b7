"""Folders of a job's storage for tasks that do not see the disk of the driver.

    savepoints-held/<token>/<token>/       while a canonical savepoint is taken
    queries/<uid>/g<G>/for-tasks/<token>/  while generation G is prepared

Nothing refers to them. The driver removes each one at the end of the tasks. What a killed driver leaves of a generation
goes with that generation, which never counts. The rest goes at the next start, or when the job is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.savepoints.take import HELD
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder

FOR_TASKS = "for-tasks"


def left_by_drivers(job_folder: Folder) -> list[Folder]:
    """The folders that drivers have made for savepoints; [] on a disk. To be called before the lease is taken: all that
    is there then is of drivers before this one, also if this one is paused and has a successor when it removes it.
    """
    if job_folder.is_local:
        return []
    files = open_checkpoint_files(job_folder / HELD).list()
    return [job_folder / HELD / name for name in sorted({each.name.partition("/")[0] for each in files})]


def remove_left(folders: Iterable[Folder]) -> None:
    """Remove what `left_by_drivers` has found. Only with the job's lease, which is taken after that."""
    for folder in folders:
        clear(folder)


def clear(folder: Folder) -> None:
    """Remove such a folder, and the one above it if that is empty now."""
    open_checkpoint_files(folder).clear("")
    for each in (folder, folder.parent):  # the marks of folders that Spark's client makes in a bucket
        open_storage(each.parent).delete_folder(each.name)
