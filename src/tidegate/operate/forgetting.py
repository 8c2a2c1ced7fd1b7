"""Removes a job that does not run: its checkpoints, and its data in the sinks. Visible rows stay.

It works as a cancel with `checkpointing.retention=delete`, but without the job's program. It uses the sinks that the
last start described in *sinks.json*. All sinks are contacted first: if one is out of reach, the job stays unchanged.
The steps are those of `checkpoints.retention`: the record *closing*, the sinks, the folders, *job.json*. After a kill,
a second call completes the removal; so does the next start of the job.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from tidegate.checkpoints.job_layout import QUERIES, generations
from tidegate.checkpoints.retention import closing_id, delete_checkpoints, go_on_deleting, is_being_deleted
from tidegate.checkpoints.succession import standing
from tidegate.core.errors import Code, TidegateError
from tidegate.core.names import is_name
from tidegate.core.records import SinkIdentity
from tidegate.operate.place import JobPlace, open_job
from tidegate.operate.sinks import SINKS, DescribedSink, Sinks, needs_its_program, not_described, open_sink
from tidegate.operate.status import find_job_folder
from tidegate.operate.supervisor_lock import supervisor_alive, supervisor_lives
from tidegate.operate.transactions import recorded
from tidegate.operate.verdicts import Named, Runs
from tidegate.savepoints.scratch import left_by_drivers, remove_left
from tidegate.sinks.base import TwoPhaseSink
from tidegate.storages.leases import taken_lease
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder

_JVM_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Clearance:
    """The things that a `forget` removes. `queries` and `sinks`: as text. `decided_rows`: rows that are decided and not
    committed yet; they never become visible. `left`: sinks that only the job's program can open and that keep no
    evidence; their staged data stays."""

    job: str
    job_id: str
    folder: str
    queries: tuple[str, ...] = ()
    sinks: tuple[str, ...] = ()
    decided_rows: int = 0
    left: tuple[str, ...] = ()


def find_forgettable(root: Folder, name: str) -> Folder:
    """The folder of the job with this name or id, below `root`.

    It also finds a job whose `forget` was killed, and a job that never started but whose sinks are described. Raises
    UID_INVALID, JOB_UNKNOWN.
    """
    folder = root / name
    if is_name(name) and (is_being_deleted(folder) or open_storage(folder).look(SINKS) is not None):
        return folder
    return find_job_folder(root, name)


def look_before(job_folder: Folder) -> Clearance:
    """A preview of `forget`. Only reads the job's folder; no sink is contacted.

    Raises JOB_UNKNOWN if the folder has no job and no interrupted `forget`.
    """
    name, job_id = _named(job_folder)
    described = _described(job_folder)
    waiting = 0
    if standing(job_folder) is not None:
        job = open_job(job_folder)
        for place in job.queries():
            records = recorded(job, place, Runs.NO).waiting
            waiting += sum(each.committable.rows for each in records if each.named is Named.DECIDED)
    return Clearance(
        job=name,
        job_id=job_id,
        folder=str(job_folder),
        queries=tuple(dict.fromkeys(each.query for each in described)),
        sinks=tuple(_told(each) for each in described),
        decided_rows=waiting,
        left=tuple(_told(each) for each in described if _is_left(each)),
    )


def forget(job_folder: Folder, options: Mapping[str, str] | None = None) -> Clearance:
    """Remove the checkpoints of the job in this folder, and its data in the sinks. Its history and its log stay.

    `options` replace the values that *sinks.json* leaves out. Raises JOB_UNKNOWN, DRIVER_ALIVE, SUPERVISOR_ALIVE,
    SINK_OUT_OF_REACH, OPTION_UNREADABLE, and the error of a sink that cannot be contacted. After an error of this kind
    nothing has changed.
    """
    found = look_before(job_folder)
    with _alone(job_folder, found.job):
        described = _described(job_folder)
        sinks = _opened(described, options or {})
        clear = partial(_clear, sinks, found.job, job_folder)
        if not go_on_deleting(job_folder, clear, found.queries):
            _check_described(open_job(job_folder), described)
            for each, sink in sinks:
                for generation in _generations(job_folder, each.query):
                    sink.pending(_identity(found.job, found.job_id, each, generation))
            delete_checkpoints(job_folder, found.job_id, clear, found.queries)
    return found


def forget_evidence(job_folder: Folder, job_id: str, options: Mapping[str, str] | None = None) -> Clearance:
    """Remove the data that the sinks of this job keep of an earlier job with the same name, whose folder is gone.

    The data is: open transactions, staged data, and the evidence of commits. Nothing in the folder changes. Idempotent.
    Raises the errors of `forget`, and REQUEST_REFUSED for the id of the job itself.
    """
    name, own = _name_in(job_folder)
    if own == job_id:
        raise TidegateError(
            Code.REQUEST_REFUSED,
            expected="the id of a job whose folder is gone",
            found=f"{job_id}, which is the job in this folder",
            where=str(job_folder),
            next_step=f"to remove this job: tidegate forget {name}, without --evidence-of",
        )
    with _alone(job_folder, name):
        described = _described(job_folder)
        sinks = _opened(described, options or {})
        found: list[tuple[DescribedSink, TwoPhaseSink, int]] = []
        for each, sink in sinks:
            position = sink.position(_identity(name, job_id, each, 1))
            is_its = position is not None and position.job_id == job_id
            found.append((each, sink, position.generation if position is not None and is_its else 1))
        for each, sink, newest in found:
            clear_sink(sink, [_identity(name, job_id, each, number) for number in range(1, newest + 1)])
    left = tuple(_told(each) for each in described if _is_left(each))
    told = tuple(_told(each) for each, _ in sinks)
    return Clearance(job=name, job_id=job_id, folder=str(job_folder), sinks=told, left=left)


def clear_sink(sink: TwoPhaseSink, identities: Sequence[SinkIdentity]) -> None:
    """Remove from a sink all data of a job: open transactions, staged data, evidence of commits. `identities`: the
    job's generations."""
    for identity in identities:
        sink.abort(sink.pending(identity))
        sink.discard(identity, 0)
        sink.forget(identity)


# --- the steps ---------------------------------------------------------------------------------------------


@contextmanager
def _alone(job_folder: Folder, name: str) -> Generator[None]:
    """Hold both locks of the job: they prove that no run is alive and that no supervisor can start one."""
    if supervisor_lives(job_folder):
        raise supervisor_alive(name, job_folder)
    left = left_by_drivers(job_folder)
    with taken_lease(job_folder, name, _JVM_SECONDS):
        remove_left(left)
        yield


def _clear(sinks: Sequence[tuple[DescribedSink, TwoPhaseSink]], name: str, job_folder: Folder, job_id: str) -> None:
    for each, sink in sinks:
        numbers = _generations(job_folder, each.query)
        clear_sink(sink, [_identity(name, job_id, each, number) for number in numbers])


def _described(job_folder: Folder) -> list[DescribedSink]:
    return Sinks(open_storage(job_folder)).all()


def _opened(described: Sequence[DescribedSink], options: Mapping[str, str]) -> list[tuple[DescribedSink, TwoPhaseSink]]:
    """The sinks that have data to remove, opened. Raises SINK_OUT_OF_REACH, OPTION_UNREADABLE."""
    found = [each for each in described if not _is_left(each)]
    for each in found:
        if not each.opens_without_the_program:
            raise needs_its_program(each, _BY_THE_PROGRAM)
    return [(each, open_sink(each, options)) for each in found]


def _is_left(each: DescribedSink) -> bool:
    return not each.opens_without_the_program and not each.keeps_evidence


def _check_described(job: JobPlace, described: Sequence[DescribedSink]) -> None:
    known = {(each.query, each.uid) for each in described}
    for place in job.queries():
        for uid in place.start.sinks:
            if (place.uid, uid) not in known:
                raise not_described(place.uid, uid, _BY_THE_PROGRAM)


_BY_THE_PROGRAM = (
    "start the job with -D checkpointing.retention=delete, then `tidegate cancel` it:"
    " the program opens its sinks itself"
)


# --- names and ids -----------------------------------------------------------------------------------------


def _named(job_folder: Folder) -> tuple[str, str]:
    """The name and the id of the job in this folder, or of the job that is being forgotten."""
    name, own = _name_in(job_folder)
    if own is not None:
        return name, own
    closing = closing_id(job_folder)
    return (job_folder.name, closing) if closing is not None else (open_job(job_folder).name, "")


def _name_in(job_folder: Folder) -> tuple[str, str | None]:
    record = standing(job_folder)
    return (job_folder.name, None) if record is None else (record.name, record.job_id)


def _generations(job_folder: Folder, query: str) -> list[int]:
    return generations(job_folder / QUERIES / query) or [1]


def _identity(name: str, job_id: str, each: DescribedSink, generation: int) -> SinkIdentity:
    return SinkIdentity(job=name, job_id=job_id, generation=generation, query=each.query, sink=each.uid)


def _told(each: DescribedSink) -> str:
    return f"{each.query}/{each.uid}: {each.told}"
