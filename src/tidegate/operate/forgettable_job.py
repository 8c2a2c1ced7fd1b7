"""A job whose checkpoints are to be removed: the part of the Python API that also finds a job without *job.json*."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidegate.storages.schemes import Folder, Where

if TYPE_CHECKING:
    from tidegate.operate.forgetting import Clearance

_NO_OPTIONS: Mapping[str, str] = {}


class ForgettableJob:
    """A job whose checkpoints can be removed: one that does not run, or one whose removal was interrupted by a kill."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def look(self) -> Clearance:
        """A preview of `forget`. Only reads the job's folder; no sink is contacted."""
        from tidegate.operate.forgetting import look_before

        return look_before(self._folder)

    def forget(self, options: Mapping[str, str] = _NO_OPTIONS) -> Clearance:
        """Remove the checkpoints and the job's data in the sinks. A second call completes a killed one."""
        from tidegate.operate.forgetting import forget

        return forget(self._folder, options)

    def forget_evidence(self, job_id: str, options: Mapping[str, str] = _NO_OPTIONS) -> Clearance:
        """Remove the data that sinks keep of an earlier job with the same name, whose folder is gone."""
        from tidegate.operate.forgetting import forget_evidence

        return forget_evidence(self._folder, job_id, options)


def open_to_forget(storage: Where, job: str) -> ForgettableJob:
    """A job to forget, even one without *job.json*. Raises JOB_UNKNOWN, UID_INVALID."""
    from tidegate.operate.forgetting import find_forgettable

    return ForgettableJob(find_forgettable(Folder.of(storage), job))
