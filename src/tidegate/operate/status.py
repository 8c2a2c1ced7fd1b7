"""The status of jobs, read from their folders. Needs no JVM, contacts no process and takes no lock.

A job's state is its driver's last report, compared with the locks: they prove which process is alive.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from enum import Enum
from typing import TypeVar

import msgspec

from tidegate.checkpoints.job_layout import (
    JOB_RECORD,
    QUERIES,
    generation_folder,
    generations,
    has_job,
    job_names,
    newest_begun,
    query_names,
    unbegun_names,
)
from tidegate.core.errors import Code, TidegateError
from tidegate.core.ledger_names import DONE, FINISHED_THROUGH, START
from tidegate.core.names import NAME_RULE, is_name, shown
from tidegate.core.records import FinishedThrough, JobRecord, Start, decode
from tidegate.operate.beat import Beat, JobState, QueryBeat, is_of_holder, look_at_beat
from tidegate.operate.supervisor_lock import supervisor_lives
from tidegate.storages.leases import driver_lives, open_lease
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Storage

_RecordT = TypeVar("_RecordT", Start, FinishedThrough)


class State(Enum):
    """The state of a job: (name, meaning)."""

    def __init__(self, label: str, meaning: str) -> None:
        self.label = label
        self.meaning = meaning

    @property
    def alive(self) -> bool:
        """True if the job runs or should run."""
        return self in (State.STARTING, State.RUNNING, State.RESTARTING)

    STARTING = ("STARTING", "its driver is recovering, or has just been started")
    RUNNING = ("RUNNING", "its driver runs")
    RESTARTING = ("RESTARTING", "its driver has ended, and its supervisor will start another one")
    FINISHED = ("FINISHED", "it has ended by itself, and all epochs are done")
    STOPPED = ("STOPPED", "it was stopped; a start resumes where it stopped")
    CANCELED = ("CANCELED", "it was canceled")
    FAILED = ("FAILED", "an error has ended it; a start resumes from its last checkpoint")
    DIED = ("DIED", "its driver was killed; a start resumes from its last checkpoint")
    UNKNOWN = ("UNKNOWN", "it does not run, and no driver has reported how it ended")
    UNREADABLE = ("UNREADABLE", "its job.json, or its folder, cannot be read")


class QueryView(msgspec.Struct, frozen=True, kw_only=True):
    """A query as its ledger shows it. `beat`: the last report of the job's newest driver, if there is one."""

    uid: str
    generation: int
    sources: tuple[str, ...]
    sinks: tuple[str, ...]
    finished: int
    """The newest epoch that is done; -1 if there is none."""
    beat: QueryBeat | None


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """A job in a folder. `job_id` is empty if the job has not started. `problem`: the reason why the job is
    unreadable."""

    name: str
    folder: str
    state: State
    job_id: str
    beat: Beat | None
    problem: str = ""


def find_jobs(folder: Folder) -> list[JobView]:
    """The jobs in `folder`, by name. Other folders are skipped. An unreadable job hides no other job."""
    return [view_job(folder / name) for name in _names(folder)]


def find_job(folder: Folder, name: str) -> JobView:
    """The job in `folder` with this name, or else this id. Raises the errors of `find_job_folder`."""
    return view_job(find_job_folder(folder, name))


def find_job_folder(folder: Folder, name: str) -> Folder:
    """The folder of the job in `folder` with this name, or else this id. Raises UID_INVALID for an invalid name;
    JOB_UNKNOWN if there is no job, or if several have the id."""
    if not is_name(name):
        raise TidegateError(
            Code.UID_INVALID,
            expected=f"the name of a job: {NAME_RULE}",
            found=shown(name),
            where="JOB",
            next_step="see `tidegate list -a`",
        )
    if has_job(folder, name):  # of many jobs, no other one is looked at
        return folder / name
    names = _names(folder)
    of_id = [] if name in names else [each for each in names if _job_id(folder / each)[0] == name]
    if len(of_id) > 1:
        raise TidegateError(
            Code.JOB_UNKNOWN,
            expected=f"one job of id {name}",
            found=f"{', '.join(of_id)}: a job that has moved keeps its id",
            where=str(folder),
            next_step="give the job's name",
        )
    if name not in names and not of_id:
        raise _unknown(folder, name, names)
    return folder / (of_id[0] if of_id else name)


def view_job(job_folder: Folder) -> JobView:
    """The status of the job in `job_folder`. Never raises an error for a damaged folder."""
    name, folder = job_folder.name, str(job_folder)
    try:
        lives = driver_lives(job_folder)
        beat, flaw = look_at_beat(job_folder)
        job_id, problem = _job_id(job_folder)
        state = State.UNREADABLE if problem else (_living if lives else _ended)(job_folder, beat)
    except TidegateError as error:
        problem = _in_a_line(error)
        return JobView(name=name, folder=folder, state=State.UNREADABLE, job_id="", beat=None, problem=problem)
    return JobView(name=name, folder=folder, state=state, job_id=job_id, beat=beat, problem=problem or flaw)


def view_queries(job: JobView) -> list[QueryView]:
    """The queries of a job, by uid."""
    folder = Folder.of(job.folder)
    said = {} if job.beat is None else {query.uid: query for query in job.beat.queries}
    return [_view_query(folder / QUERIES / uid, said.get(uid)) for uid in query_names(folder)]


def _living(job_folder: Folder, beat: Beat | None) -> State:
    """The state of a job with a driver: the report of this driver."""
    said = beat is not None and is_of_holder(beat, open_lease(job_folder).holder())
    return State[beat.state.name] if beat is not None and said else State.STARTING


def _ended(job_folder: Folder, beat: Beat | None) -> State:
    """The state of a job without a driver: the last driver's report, and whether a supervisor runs."""
    if beat is not None and beat.state.is_an_end:
        return State[beat.state.name]
    if supervisor_lives(job_folder):
        return State.RESTARTING
    if beat is None:
        return State.UNKNOWN
    return State.FAILED if beat.state is JobState.FAILED else State.DIED


def _names(folder: Folder) -> list[str]:
    """Names of the jobs that have started or are being started."""
    begun = job_names(folder)
    return sorted([*begun, *(name for name in unbegun_names(folder, begun) if _is_attended(folder / name))])


def _is_attended(job_folder: Folder) -> bool:
    """True if the job has a driver or a supervisor. A lock that cannot be read counts as free."""
    try:
        return driver_lives(job_folder) or supervisor_lives(job_folder)
    except TidegateError:
        return False


def _job_id(job_folder: Folder) -> tuple[str, str]:
    """(the job's id, the reason why it is unreadable)."""
    storage = open_storage(job_folder)
    try:
        data = storage.peek(JOB_RECORD)
        if data is None:
            return "", "" if _is_attended(job_folder) else f"there is no {storage.where(JOB_RECORD)}"
        return decode(JobRecord, data, storage.where(JOB_RECORD)).job_id, ""
    except TidegateError as error:
        return "", _in_a_line(error)


def _in_a_line(error: TidegateError) -> str:
    return f"{error.code}: {error.found} ({error.where})"


def _view_query(folder: Folder, beat: QueryBeat | None) -> QueryView:
    generation = newest_begun(folder) or max(generations(folder), default=0)
    ledger = open_storage(generation_folder(folder, generation))
    start = _record(Start, ledger, START)
    return QueryView(
        uid=folder.name,
        generation=generation,
        sources=() if start is None else start.sources,
        sinks=() if start is None else start.sinks,
        finished=_finished(ledger),
        beat=beat,
    )


def _finished(ledger: Storage) -> int:
    through = _record(FinishedThrough, ledger, FINISHED_THROUGH)
    done = [int(name) for name in ledger.peek_names(DONE) if name.isdigit()]
    return max([-1 if through is None else through.epoch, *done])


def _record(kind: type[_RecordT], ledger: Storage, name: str) -> _RecordT | None:
    """A record; None if it is missing or unreadable. A view shows the readable part; recovery reports the damage."""
    try:
        data = ledger.peek(name)
        return None if data is None else decode(kind, data, ledger.where(name))
    except TidegateError:
        return None


def _unknown(folder: Folder, name: str, names: Sequence[str]) -> TidegateError:
    near = get_close_matches(name, names, n=3) or [each for each in names if name.lower() in each.lower()][:3]
    there = f"{len(names)} jobs there" if len(names) != 1 else f"one job there, {names[0]}"
    return TidegateError(
        Code.JOB_UNKNOWN,
        expected=f"a job of the name or the id {name}",
        found=f"no such job; {there}",
        where=str(folder),
        next_step=f"did you mean {' or '.join(near)}?"
        if near
        else "name its folder with --dir; see `tidegate list -a`",
    )
