"""Takes the savepoint of a job that has ended, without its program: what a `stop -p` still owes that was cut short.

All that is needed stands in the job's folder. The job's locks are held meanwhile, so no start comes in between.
"""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from tidegate.checkpoints.drained import is_drained
from tidegate.checkpoints.retention import is_being_deleted
from tidegate.checkpoints.spark_layout import entry_numbers
from tidegate.core.errors import Code, TidegateError
from tidegate.core.ledger import COMMITS, DECIDED, RUNS
from tidegate.core.levels import Level
from tidegate.core.records import SavepointFormat
from tidegate.operate.beat import read_beat
from tidegate.operate.control import Kind
from tidegate.operate.copy_progress import CopyProgress
from tidegate.operate.place import JobPlace, QueryPlace, open_job
from tidegate.savepoints.copying import Copying
from tidegate.savepoints.folder import Savepoint
from tidegate.savepoints.hold import RunningQuery, newest_done
from tidegate.savepoints.place import check_place
from tidegate.savepoints.restore import settle
from tidegate.savepoints.take import RunningJob, remove_held, take_last
from tidegate.storages.leases import open_lease

_JVM_SECONDS = 30.0


def saving_ended(
    job_folder: Path, savepoint_id: str, into: str | None, form: SavepointFormat, *, ended_by: Kind
) -> Generator[CopyProgress, None, Savepoint]:
    """Take a savepoint of all that the job has done, below `into`, else where the job's own `savepoints.dir` said.

    Gives how far it is, whenever it is asked, and at the end the savepoint. Closed before, it is called off. `ended_by`
    a drain: of a job that has ended for good, and of no other one.

    Raises DRIVER_ALIVE when the job has been started since, SAVEPOINT_REFUSED where a start has to come first.
    """
    copying = Copying(f"savepoint {savepoint_id} of job {job_folder.name}, which has ended")
    with ThreadPoolExecutor(1, "tidegate-savepoint") as beside:
        saving = beside.submit(_save, job_folder, savepoint_id, into, copying, form, ended_by)
        try:
            while not saving.done():
                yield CopyProgress.of(copying)
        except BaseException:
            copying.call_off("the command was interrupted")
            raise
    return saving.result()


def _save(
    job_folder: Path, savepoint_id: str, into: str | None, copying: Copying, form: SavepointFormat, ended_by: Kind
) -> Savepoint:
    with ExitStack() as stack:
        stack.callback(open_lease(job_folder).take(job_folder.name, _JVM_SECONDS).release)
        settle(job_folder)  # a restore that was cut short: its generation is what there is to save
        job = open_job(job_folder)
        folder = _folder(job, into)
        check_place(folder, job.folder)
        queries = _queries(job, ended_by)
        remove_held(job_folder)
        running = RunningJob(job.folder, job.record, queries, is_drained=ended_by is Kind.DRAIN_WITH_SAVEPOINT)
        return take_last(running, savepoint_id, folder, copying, form)


def _queries(job: JobPlace, ended_by: Kind) -> list[RunningQuery]:
    """Spark runs no more, and keeps what it has: no epoch goes while it is held."""
    drained = ended_by is Kind.DRAIN_WITH_SAVEPOINT
    if _said(job, "checkpointing.mode") == Level.AT_MOST_ONCE.value:
        raise _refused(job, "a job at exactly-once or at-least-once", "one at most once, which goes on from nothing")
    if is_being_deleted(job.folder):
        raise _refused(job, "checkpoints that a start goes on from", "a job that was given up")
    if is_drained(job.folder) and not drained:
        again = f"`tidegate stop {job.name} --drain -p` takes one that can be read, and not be gone on from"
        raise _refused(job, "checkpoints that a start goes on from", "a job that was drained", again)
    if drained and not is_drained(job.folder):
        raise _refused(job, "a job that was drained", "one that was not")
    beat = read_beat(job.folder)
    told = None if beat is None else {query.uid for query in beat.queries}
    # An older program may have had more. Of what a restore has begun, no driver has told yet.
    places = [each for each in job.queries() if told is None or each.uid in told or _is_only_restored(each)]
    found = [RunningQuery(job.query(each, _NONE, _NONE), each.folder, _ALL) for each in places]
    for running in found:
        done = newest_done(running)
        newest = max((max(_entries(running.folder / each), default=-1) for each in (DECIDED, COMMITS)), default=-1)
        if done is None or newest > done.epoch:
            found_done = "no done epoch" if done is None else f"epoch {newest} decided, epoch {done.epoch} done"
            raise _refused(job, f"query {running.query.uid} with everything done that is decided", found_done)
    if not found:
        raise _refused(job, "a query that has begun", "none")
    return found


def _is_only_restored(place: QueryPlace) -> bool:
    """Whether no driver has opened the query since its generation was restored: each claims a run of its own."""
    return place.start.first_epoch > 0 and len(_entries(place.folder / RUNS)) == 1


_NONE: frozenset[str] = frozenset()
_ALL = 1 << 62


def _entries(folder: Path) -> list[int]:
    return entry_numbers(path.name for path in folder.iterdir()) if folder.is_dir() else []


def _folder(job: JobPlace, into: str | None) -> Path:
    named = into or _said(job, "savepoints.dir")
    if not Path(named).is_absolute():  # it counts from where the driver ran
        raise TidegateError(
            Code.REQUEST_REFUSED,
            expected="a folder for the savepoint",
            found=f"savepoints.dir = {named}, which the driver took from its own folder" if named else "none",
            where=f"job {job.name}",
            next_step=f"name it by its whole path: tidegate savepoint {job.name} /path/of/the/folder",
        )
    return Path(named).absolute()


def _said(job: JobPlace, setting: str) -> str:
    """A setting as the job's last driver had it; empty if unknown."""
    beat = read_beat(job.folder)
    found = {} if beat is None else {each.name: each.value for each in beat.settings if each.origin != "default"}
    return found.get(setting, "")


def _refused(job: JobPlace, expected: str, found: str, next_step: str = "") -> TidegateError:
    return TidegateError(
        Code.SAVEPOINT_REFUSED,
        expected=expected,
        found=found,
        where=f"job {job.name}, which has ended",
        next_step=next_step or "start the job, which finishes what is decided, and ask again under the same id",
    )
