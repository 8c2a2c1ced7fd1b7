"""The supervisor's view of its job in the job's folder."""

from __future__ import annotations

from tidegate.checkpoints.job_layout import JOB_RECORD
from tidegate.core.errors import Code, TidegateError
from tidegate.operate.beat import Beat, read_beat
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder


def beat_in(folder: Folder) -> Beat | None:
    """The beat; None also if the disk does not answer. A job does not end because its supervisor cannot read it."""
    try:
        return read_beat(folder)
    except TidegateError:
        return None


def has_record(folder: Folder | None) -> bool:
    return folder is not None and open_storage(folder).look(JOB_RECORD) is not None


def find_again(folder: Folder) -> None:
    """Raise STORAGE_UNUSABLE if a job that has started is no longer in its folder. Its disk is not mounted then, and a
    driver would create another job of this name on the disk below."""
    storage = open_storage(folder)
    if storage.look(JOB_RECORD) is None:
        raise TidegateError(
            Code.STORAGE_UNUSABLE,
            expected="the record of the job, which has run in this folder",
            found="no such file",
            where=storage.where(JOB_RECORD),
            next_step="mount the disk again, or put the folder back; then start again",
        )
