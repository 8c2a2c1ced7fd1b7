"""The files of a job that belong to one machine: the lock of its supervisor, the logs of its processes."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from tidegate.storages.schemes import Folder

_DIGITS = 16


def folder_here(job_folder: Folder) -> Path:
    """A folder on this machine's disk for what only this machine needs of a job.

    That is the job's own folder, if it is on a disk. Otherwise it is a folder of the user for this job:
    `~/.local/state/tidegate/<digest>/<job>`, or below XDG_STATE_HOME if that is an absolute path. The digest is of the
    folder that holds the jobs, so two storages may have a job of one name.
    """
    if job_folder.is_local:
        return job_folder.local()
    wanted = Path(os.environ.get("XDG_STATE_HOME", ""))
    home = wanted if wanted.is_absolute() else Path.home() / ".local" / "state"
    digest = hashlib.sha256(str(job_folder.parent).encode()).hexdigest()[:_DIGITS]
    return home / "tidegate" / digest / job_folder.name
