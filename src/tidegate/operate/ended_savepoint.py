"""Takes the savepoint of a job that has ended, without its program. Completes a `stop -p` that was interrupted.

All needed files are in the job's folder. The job's locks are held during the copy, so that no start can interfere.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial

from tidegate.checkpoints.drained import is_drained
from tidegate.checkpoints.retention import is_being_deleted
from tidegate.checkpoints.spark_layout import entry_numbers
from tidegate.core.errors import TidegateError
from tidegate.core.ledger import COMMITS, DECIDED, RUNS
from tidegate.core.levels import Level
from tidegate.core.records import SavepointFormat
from tidegate.operate.beat import read_beat
from tidegate.operate.control import Kind
from tidegate.operate.copy_progress import CopyProgress
from tidegate.operate.milestones import add_milestones, savepoint_taken
from tidegate.operate.place import JobPlace, QueryPlace, open_job
from tidegate.operate.refusals import no_folder_for_it
from tidegate.savepoints.copying import Copying
from tidegate.savepoints.elsewhere import check_into, take_last_into
from tidegate.savepoints.folder import Savepoint
from tidegate.savepoints.hold import RunningQuery, newest_done
from tidegate.savepoints.refusals import not_at_its_end
from tidegate.savepoints.running_job import RunningJob
from tidegate.savepoints.settled import settle
from tidegate.savepoints.take import remove_held
from tidegate.storages.lease import HeldLease
from tidegate.storages.leases import taken_lease
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Storage

_JVM_SECONDS = 30.0


def saving_ended(
    job_folder: Folder, savepoint_id: str, into: str | None, form: SavepointFormat, *, ended_by: Kind
) -> Generator[CopyProgress, None, Savepoint]:
    """Take a savepoint of all completed work of the job, below `into` or below the job's own `savepoints.dir`.

    Yields the progress; returns the savepoint. Closing the generator cancels the copy. `ended_by`: a drain requires a
    drained job, and every other kind requires a job that is not drained.

    Raises DRIVER_ALIVE if the job has been started since; SAVEPOINT_REFUSED if the job must be started first.
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
    job_folder: Folder, savepoint_id: str, into: str | None, copying: Copying, form: SavepointFormat, ended_by: Kind
) -> Savepoint:
    with ExitStack() as stack:
        lease = stack.enter_context(taken_lease(job_folder, job_folder.name, _JVM_SECONDS))
        settle(job_folder)  # a restore was interrupted: save its generation
        job = open_job(job_folder)
        folder = _folder(job, into)
        queries = _queries(job, ended_by)
        remove_held(job_folder)
        drained = ended_by is Kind.DRAIN_WITH_SAVEPOINT
        running = RunningJob(job.folder, job.record, queries, partial(_go_on, lease), is_drained=drained)
        check_into(running, folder)
        savepoint = take_last_into(running, savepoint_id, folder, copying, form)
        if lease.lost_here() is None:
            with suppress(TidegateError):  # the milestone is only for display, and the savepoint is complete
                add_milestones(job_folder, [savepoint_taken(savepoint.found_at, time.time())])
        return savepoint


def _go_on(lease: HeldLease, _step: str) -> None:
    """A command that was paused for too long goes no further."""
    if (lost := lease.lost_here()) is not None:
        raise lost


def _queries(job: JobPlace, ended_by: Kind) -> list[RunningQuery]:
    """The queries of the job. Spark no longer runs and removes nothing, so each epoch stays while it is copied."""
    drained = ended_by is Kind.DRAIN_WITH_SAVEPOINT
    if _said(job, "checkpointing.mode") == Level.AT_MOST_ONCE.value:
        raise _refused(job, "a job at exactly-once or at-least-once", "an at-most-once job, which has no checkpoints")
    if is_being_deleted(job.folder):
        raise _refused(job, "checkpoints that a start can resume from", "a job whose checkpoints are being deleted")
    if is_drained(job.folder) and not drained:
        again = f"`tidegate stop {job.name} --drain -p` takes a savepoint that can be read and not restored"
        raise _refused(job, "checkpoints that a start can resume from", "a job that was drained", again)
    if drained and not is_drained(job.folder):
        raise _refused(job, "a job that was drained", "a job that was not drained")
    beat = read_beat(job.folder)
    told = None if beat is None else {query.uid for query in beat.queries}
    # An older program may have had more queries. No driver has reported a query that a restore has just created.
    places = [each for each in job.queries() if told is None or each.uid in told or _is_only_restored(each)]
    found = [RunningQuery(job.query(each, _NONE, _NONE), each.folder, _ALL) for each in places]
    for running in found:
        done = newest_done(running)
        ledger = open_storage(running.folder)
        newest = max((max(_entries(ledger, each), default=-1) for each in (DECIDED, COMMITS)), default=-1)
        if done is None or newest > done.epoch:
            found_done = "no done epoch" if done is None else f"epoch {newest} decided, epoch {done.epoch} done"
            raise _refused(job, f"query {running.query.uid} with every decided epoch done", found_done)
    if not found:
        raise _refused(job, "a query that has started", "none")
    return found


def _is_only_restored(place: QueryPlace) -> bool:
    """True if no driver has opened the query since its generation was restored. Each driver claims a run of its own."""
    return place.start.first_epoch > 0 and len(_entries(place.storage, RUNS)) == 1


_NONE: frozenset[str] = frozenset()
_ALL = 1 << 62


def _entries(ledger: Storage, folder: str) -> list[int]:
    return entry_numbers(ledger.peek_names(folder))


def _folder(job: JobPlace, into: str | None) -> Folder:
    named = into or _said(job, "savepoints.dir")
    whole = Folder.of(named) if named else None
    # a relative path counts from the driver's working folder
    if whole is None or (whole.is_local and not named.startswith(("/", "file:"))):
        raise no_folder_for_it(
            f"savepoints.dir = {named}, which the driver took from its own folder" if named else "none",
            f"job {job.name}",
            f"name it by its whole path: tidegate savepoint {job.name} /path/of/the/folder",
        )
    return whole


def _said(job: JobPlace, setting: str) -> str:
    """The value of a setting in the report of the job's last driver; empty if it is not known."""
    beat = read_beat(job.folder)
    found = {} if beat is None else {each.name: each.value for each in beat.settings if each.origin != "default"}
    return found.get(setting, "")


def _refused(job: JobPlace, expected: str, found: str, next_step: str = "") -> TidegateError:
    return not_at_its_end(expected, found, f"job {job.name}, which has ended", next_step)
