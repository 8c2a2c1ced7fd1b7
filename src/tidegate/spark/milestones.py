"""Writes the milestones of a job."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tidegate.core.effects import Happening
from tidegate.core.errors import TidegateError
from tidegate.core.happenings import RecordsSkipped
from tidegate.core.redaction import SECRETS
from tidegate.operate.beat import JobState, read_beat
from tidegate.operate.milestones import Milestone, MilestoneKind, add_milestones
from tidegate.savepoints.folder import Savepoint
from tidegate.spark.companions import Companion
from tidegate.storages.schemes import Folder

if TYPE_CHECKING:
    from tidegate.spark.live_job import LiveJob


class MilestoneWriter(Companion):
    """Feeds `history/milestones.jsonl`. Comes before the pulse: its start reads the beat of the driver before it."""

    def __init__(self, job_folder: Folder) -> None:
        self._folder = job_folder
        self._lock = threading.Lock()
        self._lost_lease: Callable[[], TidegateError | None] = lambda: None
        self._handle: LiveJob | None = None
        self._saved: set[str] = set()

    def opening(self, handle: LiveJob) -> None:
        self._handle, self._lost_lease = handle, handle.lost_lease
        self._add([*_kill(self._folder), _now(MilestoneKind.START, "the job was started")])

    def saved(self, savepoint: Savepoint) -> None:
        """Called from the thread that has taken a savepoint. A second request for the same one counts once."""
        path = str(savepoint.found_at)
        if path not in self._saved:
            self._saved.add(path)
            self._add([_now(MilestoneKind.SAVEPOINT, f"a savepoint in {path}")])

    def happened(self, query: str, run: int, happening: Happening) -> None:
        match happening:
            case RecordsSkipped(epoch, source, what):
                self._add([_now(MilestoneKind.SKIP, what, query=query, epoch=epoch, source=source)])
            case _:
                pass

    def ended(self, error: BaseException | None) -> None:
        if (handle := self._handle) is not None:
            self._add([_end(handle, error)])

    def _add(self, new: Sequence[Milestone]) -> None:
        """A driver that has lost its lease writes nothing: its lines would take the place of those of its successor."""
        with self._lock:
            if self._lost_lease() is None:
                add_milestones(self._folder, new)


def _kill(folder: Folder) -> Sequence[Milestone]:
    """That of the driver before this one, at its last report."""
    beat = read_beat(folder)
    if beat is None or beat.state is not JobState.RUNNING:
        return ()
    text = f"process {beat.process} on {beat.host} ended without a report: killed, or out of memory"
    return (Milestone(at=beat.at, kind=MilestoneKind.KILL, text=text),)


def _end(handle: LiveJob, error: BaseException | None) -> Milestone:
    state = handle.outcome.end_state(error)
    if state is JobState.FAILED:
        text = f"{error.code}: {error.where}: {error.found}" if isinstance(error, TidegateError) else repr(error)
        return _now(MilestoneKind.FAILURE, SECRETS.hide(text))
    drained = ", and drained: no start resumes from its checkpoint" if handle.outcome.is_drained else ""
    return _now(MilestoneKind.STOP, f"the job is {state.value}{drained}")


def _now(kind: MilestoneKind, text: str, **of: Any) -> Milestone:
    return Milestone(at=time.time(), kind=kind, text=text, **of)
