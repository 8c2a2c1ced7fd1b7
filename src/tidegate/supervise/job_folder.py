"""What a supervisor sees of its job in the job's folder."""

from __future__ import annotations

import os
from pathlib import Path

from tidegate.checkpoints.job_layout import JOB_RECORD
from tidegate.disk.durable import storage_error
from tidegate.operate.beat import Beat, read_beat


def beat_in(folder: Path) -> Beat | None:
    """None, too, where the disk does not answer: a job does not end because its supervisor cannot look at it."""
    try:
        return read_beat(folder)
    except OSError:
        return None


def has_record(folder: Path | None) -> bool:
    return folder is not None and (folder / JOB_RECORD).exists()


def find_again(folder: Path) -> None:
    """Raises STORAGE_UNUSABLE where a job that has begun is not in its folder any more. Its disk is away then: a driver
    would begin another job of this name, in whatever lies below."""
    path = folder / JOB_RECORD
    try:
        os.stat(path)
    except OSError as error:
        raise storage_error(error, path, "find the job again, which has run in this folder") from error
