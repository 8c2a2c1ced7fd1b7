"""The supervisor's view of its job in the job's folder."""

from __future__ import annotations

import os
from pathlib import Path

from tidegate.checkpoints.job_layout import JOB_RECORD
from tidegate.disk.durable import storage_error
from tidegate.operate.beat import Beat, read_beat


def beat_in(folder: Path) -> Beat | None:
    """The beat; None also if the disk does not answer. A job does not end because its supervisor cannot read it."""
    try:
        return read_beat(folder)
    except OSError:
        return None


def has_record(folder: Path | None) -> bool:
    return folder is not None and (folder / JOB_RECORD).exists()


def find_again(folder: Path) -> None:
    """Raise STORAGE_UNUSABLE if a job that has started is no longer in its folder. Its disk is not mounted then, and a
    driver would create another job of this name on the disk below."""
    path = folder / JOB_RECORD
    try:
        os.stat(path)
    except OSError as error:
        raise storage_error(error, path, "find the job again, which has run in this folder") from error
