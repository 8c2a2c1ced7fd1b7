"""Writes the milestones of a job. They are noted at once, and written in batches."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from tidegate.core.effects import Happening
from tidegate.core.errors import TidegateError
from tidegate.core.happenings import RecordsSkipped
from tidegate.core.redaction import SECRETS
from tidegate.operate.beat import JobState, read_beat
from tidegate.operate.milestones import Milestone, MilestoneKind, add_milestones, savepoint_taken
from tidegate.operate.rhythm import rhythm_of
from tidegate.savepoints.folder import Savepoint
from tidegate.spark.ticking import Ticking
from tidegate.storages.schemes import Folder

if TYPE_CHECKING:
    from tidegate.spark.live_job import LiveJob


class MilestoneWriter(Ticking):
    """Feeds `history/milestones.jsonl`. Comes before the pulse: its start reads the beat of the driver before it."""

    def __init__(self, job_folder: Folder) -> None:
        super().__init__("history of milestones", rhythm_of(job_folder).history)
        self._folder = job_folder
        self._handle: LiveJob | None = None
        self._lock = threading.Lock()
        self._new: list[Milestone] = []

    def begin(self, handle: LiveJob) -> None:
        self._handle = handle
        beat = read_beat(self._folder)
        if beat is not None and beat.state is JobState.RUNNING:
            text = f"process {beat.process} on {beat.host} ended, or lost its lease, without a report"
            self._note(Milestone(at=beat.at, kind=MilestoneKind.KILL, text=text))
        self._note(_now(MilestoneKind.START, "the job was started"))

    def happened(self, query: str, run: int, happening: Happening) -> None:
        match happening:
            case RecordsSkipped(epoch, source, what):
                self._note(_now(MilestoneKind.SKIP, what, query=query, epoch=epoch, source=source))
            case _:
                pass

    def saved(self, savepoint: Savepoint) -> None:
        """Called from the thread that has taken a savepoint, which must not wait for the storage here."""
        self._note(savepoint_taken(savepoint.found_at, time.time()))

    def tick(self) -> None:
        with self._lock:
            new, self._new = self._new, []
        if new:
            add_milestones(self._folder, new)

    def last(self, error: BaseException | None) -> None:
        if self._handle is not None:
            self._note(_end(self._handle, error))
        self.tick()

    def _note(self, milestone: Milestone) -> None:
        with self._lock:
            self._new.append(milestone)


def _end(handle: LiveJob, error: BaseException | None) -> Milestone:
    state = handle.outcome.end_state(error)
    if state is JobState.FAILED:
        text = f"{error.code}: {error.where}: {error.found}" if isinstance(error, TidegateError) else repr(error)
        return _now(MilestoneKind.FAILURE, SECRETS.hide(text))
    drained = ", and drained: no start resumes from its checkpoint" if handle.outcome.is_drained else ""
    return _now(MilestoneKind.STOP, f"the job is {state.value}{drained}")


def _now(kind: MilestoneKind, text: str, **of: Any) -> Milestone:
    return Milestone(at=time.time(), kind=kind, text=text, **of)
