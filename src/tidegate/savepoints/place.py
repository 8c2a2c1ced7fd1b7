"""The allowed folders for savepoints: none that belongs to a job or another savepoint, and could be removed with it."""

from __future__ import annotations

from pathlib import Path

from tidegate.checkpoints.job_layout import JOB_RECORD
from tidegate.core.errors import Code, TidegateError
from tidegate.disk.durable import Trust
from tidegate.savepoints.folder import MANIFEST
from tidegate.storages.schemes import Folder


def check_place(into: Path, job_folder: Folder | None = None) -> None:
    """Raises REQUEST_REFUSED for a folder that belongs to this job, another job or another savepoint."""
    with Trust().over(into, "look at the folder for a savepoint"):
        place = into.resolve()
        above = [place, *place.parents]
        if job_folder is not None and job_folder.is_local and job_folder.local().resolve() in above:
            raise in_folder_of(into, "the job's own folder, which a cancel may delete")
        for folder in above:
            if (folder / JOB_RECORD).is_file():
                raise in_folder_of(into, f"the folder of a job, {folder}")
            if (folder / MANIFEST).is_file():
                raise in_folder_of(into, f"a savepoint or a checkpoint, {folder}")


def in_folder_of(into: Path | Folder, found: str) -> TidegateError:
    """The error of a folder in one where no savepoint may be."""
    return TidegateError(
        Code.REQUEST_REFUSED,
        expected="a folder for savepoints that belongs to no job and is in no savepoint",
        found=f"a folder in {found}",
        where=str(into),
        next_step="name a folder for savepoints alone (tidegate savepoint JOB DIR), or set savepoints.dir to one",
    )
