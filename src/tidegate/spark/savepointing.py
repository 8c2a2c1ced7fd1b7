"""Savepoints of a running job: in a thread of their own, one after another, so that no epoch and no request waits."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from tidegate.checkpoints.savepoint_folder import Savepoint
from tidegate.checkpoints.savepoint_take import RunningJob, take
from tidegate.core.errors import Code, TidegateError
from tidegate.core.names import NAME_RULE, is_name, shown


class Savepoints:
    """What takes the savepoints of one job. `default` is the folder for those that name none."""

    def __init__(self, job: RunningJob, default: str | None) -> None:
        self._job = job
        self._default = default
        self._thread = ThreadPoolExecutor(1, "tidegate-savepoint")
        self._lock = threading.Lock()
        self._taken: dict[str, Future[Savepoint]] = {}

    def begin(self, savepoint_id: str, into: str | None) -> Future[Savepoint]:
        """Take a savepoint; asked again under its id it is the same one. Raises REQUEST_REFUSED."""
        with self._lock:
            if savepoint_id not in self._taken:
                folder = self._folder(savepoint_id, into)
                self._taken[savepoint_id] = self._thread.submit(take, self._job, savepoint_id, folder)
            return self._taken[savepoint_id]

    def begun(self, savepoint_id: str) -> Future[Savepoint] | None:
        """The savepoint of this id, if it was begun."""
        return self._taken.get(savepoint_id)

    def _folder(self, savepoint_id: str, into: str | None) -> Path:
        if not is_name(savepoint_id):
            raise _refused(f"an id of {NAME_RULE}", shown(savepoint_id), self._job, "choose another id")
        folder = into or self._default
        if folder is None:
            next_step = "name a folder, or set savepoints.dir for the job"
            raise _refused("a folder for the savepoint", "none", self._job, next_step)
        return Path(folder).absolute()


def _refused(expected: str, found: str, job: RunningJob, next_step: str) -> TidegateError:
    where = f"job {job.record.name}"
    return TidegateError(Code.REQUEST_REFUSED, expected=expected, found=found, where=where, next_step=next_step)


def not_of_this_job(name: str) -> TidegateError:
    """An at-most-once job goes on from nothing."""
    return TidegateError(
        Code.SAVEPOINT_REFUSED,
        expected="a job at exactly-once or at-least-once",
        found="checkpointing.mode = at-most-once: each start begins with empty state, at the newest input",
        where=f"job {name}",
        next_step="choose another level, or go on without savepoints",
    )
