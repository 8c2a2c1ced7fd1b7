"""The Python API for jobs that run in other processes: `from tidegate import operate`.

`tidegate list`, `info`, `stop` and all other commands use it. It needs no Spark, prints nothing, and works from every
process that reaches the storage. Code for actions is loaded at its first use.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.checkpoints.job_layout import job_names
from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import SavepointFormat
from tidegate.core.spelling import did_you_mean
from tidegate.operate.beat import read_beat
from tidegate.operate.checkpoints_history import ENTRIES_KEPT, read_checkpoints
from tidegate.operate.control import Kind
from tidegate.operate.done_checkpoint import DoneCheckpoint
from tidegate.operate.failures import Failure, newest_failure, read_failures
from tidegate.operate.job_views import (
    JobHistory,
    JobInfo,
    JobTotals,
    read_history,
    read_info,
    read_job_totals,
)
from tidegate.operate.milestones import Milestone, beside_failures, read_milestones
from tidegate.operate.status import JobView, find_job_folder, find_jobs, view_job
from tidegate.storages.schemes import Folder, Where

if TYPE_CHECKING:
    from tidegate.operate.copy_progress import CopyProgress
    from tidegate.operate.forgetting import Clearance
    from tidegate.operate.graph import Graph
    from tidegate.operate.job_log import JobLog
    from tidegate.operate.positions import ReachedPosition
    from tidegate.operate.settle import Ended
    from tidegate.operate.sinks import DescribedSink
    from tidegate.operate.tickets import Ticket, TicketView
    from tidegate.operate.transactions import Transactions
    from tidegate.operate.verdicts import Act

_OF_YARN = "application_"
"""The ids of YARN begin so."""

_NO_OPTIONS: Mapping[str, str] = {}


def open(storage: Where, job: str) -> JobClient:
    """A job by its name or its id. `storage`: the `checkpointing.dir` of its program, as a path or a URI.

    Raises JOB_UNKNOWN; UID_INVALID if `job` is not a valid name; SETTING_VALUE for an unknown scheme.
    """
    return JobClient(find_job_folder(Folder.of(storage), job))


def jobs(storage: Where) -> tuple[JobView, ...]:
    """All jobs of a storage, by name. An unreadable job has its error in `problem`; the other jobs are still
    returned."""
    return tuple(find_jobs(Folder.of(storage)))


def names(storage: Where) -> tuple[str, ...]:
    """The names of the jobs that have started. Faster than `jobs`, which reads each job."""
    return tuple(job_names(Folder.of(storage)))


def list_transactions(storage: Where, options: Mapping[str, str] = _NO_OPTIONS) -> tuple[Transactions, ...]:
    """The waiting transactions of every job of a storage. An unreadable job is listed among the problems; the other
    jobs are still returned."""
    from tidegate.operate.place import open_job
    from tidegate.operate.transactions import Transactions, look

    def of_one(folder: Folder) -> Transactions:
        try:
            return look(open_job(folder), options).frozen()
        except TidegateError as error:
            return Transactions(problems=(error,))

    root = Folder.of(storage)
    return tuple(of_one(root / name) for name in job_names(root))


class JobClient:
    """One job, controlled from outside. Every call reads the files again; nothing is cached.

    Each action returns a `Ticket`: `ticket.poll()` looks once, `ticket.wait()` waits. `id` names the request: a second
    call with the same id is the same request. A savepoint is written below the folder `into`; None uses the job's own
    setting `savepoints.dir`.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    @property
    def name(self) -> str:
        return self._folder.name

    @property
    def folder(self) -> str:
        """The folder with all durable files of the job."""
        return str(self._folder)

    # --- views -----------------------------------------------------------------------------------------------

    def view(self) -> JobView:
        """The job's state and the last report of its driver."""
        return view_job(self._folder)

    def info(self) -> JobInfo:
        """The same with queries, settings and retained checkpoints. Raises STORAGE_UNUSABLE, RECORD_..."""
        return read_info(self._folder)

    def history(self, newest: int = ENTRIES_KEPT) -> JobHistory:
        """Checkpoints, failures and restarts, at most `newest` of each. Raises STORAGE_UNUSABLE, RECORD_..."""
        return read_history(self._folder, newest)

    def epochs(
        self, newest: int = 200, *, before: float = math.inf, since: float = -math.inf, behind: int = -1
    ) -> tuple[DoneCheckpoint, ...]:
        """The newest done epochs, newest first, at most `newest`. `before`, `since`: only those that were completed
        before the one time, and not before the other one, in seconds since 1970. `behind`: only those with a higher
        `number`. Reads no more of the history than that. Raises STORAGE_UNUSABLE.
        """
        return tuple(read_checkpoints(self._folder, newest, before=before, since=since, behind=behind))

    def failures(self, behind: int = 0) -> tuple[Failure, ...]:
        """The recorded failures, newest first. `behind`: only those with a higher `number`. Raises STORAGE_UNUSABLE,
        RECORD_..."""
        return tuple(read_failures(self._folder, behind))

    def milestones(self, failures: Sequence[Failure] | None = None) -> tuple[Milestone, ...]:
        """The job's starts, savepoints and ends, the kills of its drivers, and lost records that it skipped, the newest
        first. A kill or an end with an error that is among the `failures` is left out. `failures`: a view that was read
        already. Raises STORAGE_UNUSABLE, RECORD_..."""
        failures = self.failures() if failures is None else failures
        return tuple(beside_failures(read_milestones(self._folder), failures))

    def positions(self, info: JobInfo | None = None) -> tuple[ReachedPosition, ...]:
        """How far each query has read its sources at the end of its newest done epoch. `info`: a view that was read
        already. Raises the errors of `info`."""
        from tidegate.operate.positions import read_positions

        return tuple(read_positions(self._folder, (self.info() if info is None else info).queries))

    def newest_failure(self) -> Failure | None:
        """The newest recorded failure that can be read. It has the counts of all before it. Raises STORAGE_UNUSABLE."""
        return newest_failure(self._folder)

    def totals(self) -> JobTotals:
        """What the job has done in all its starts. Raises STORAGE_UNUSABLE."""
        return read_job_totals(self._folder)

    def graph(self, info: JobInfo | None = None) -> Graph:
        """What the job's queries read and write. `info`: a view that was read already. Raises the errors of `info`. A
        sink whose description cannot be read is drawn by its uid."""
        from tidegate.operate.graph import graph_of

        info = self.info() if info is None else info
        try:
            sinks = self.sinks()
        except TidegateError:
            sinks = ()
        return graph_of(info.queries, info.sources, sinks)

    def as_html(self) -> str:
        """State, graph, queries with their lag, last epochs: what a notebook shows. Raises the errors of `info`."""
        from tidegate.operate.notebook import EPOCHS_SHOWN, FAILURES_SHOWN, html_of

        info, failures = self.info(), self.failures(behind=self.totals().failures - FAILURES_SHOWN)
        return html_of(info, self.graph(info), self.epochs(EPOCHS_SHOWN), failures)

    def _repr_html_(self) -> str:
        return self.as_html()

    def show(self, every_seconds: float | None = None) -> None:
        """In a notebook: show the job in this cell, and keep the display young until the job has ended. Returns at
        once. `every_seconds`: between two looks; by default 2, and off a disk 15. Raises REQUEST_REFUSED elsewhere."""
        from tidegate.operate.notebook_view import EVERY_SECONDS, show
        from tidegate.operate.rhythm import rhythm_of

        every = max(EVERY_SECONDS, rhythm_of(self._folder).watch) if every_seconds is None else every_seconds
        show(self.name, self.as_html, lambda: not self.view().state.alive, every)

    def sinks(self) -> tuple[DescribedSink, ...]:
        """The sinks as the job's last start described them, channels among them. Raises SINK_OUT_OF_REACH if this
        release cannot read the descriptions."""
        from tidegate.operate.sinks import Sinks
        from tidegate.storages.opening import open_storage

        return tuple(Sinks(open_storage(self._folder)).all())

    def log(self) -> JobLog:
        """The end of the newest log in the job's folder, without secrets. Raises STORAGE_UNUSABLE."""
        from tidegate.operate.job_log import read_log

        return read_log(self._folder)

    def runs_on_yarn(self, application: str) -> bool:
        """True if the job's newest driver runs, or ran, in this application of YARN; False if in none, or if it has
        reported none.

        Raises JOB_UNKNOWN if it was another one: the caller means another job.
        """
        beat = read_beat(self._folder)
        found = "" if beat is None else beat.application
        if not found.startswith(_OF_YARN):
            return False
        if found != application:
            raise TidegateError(
                Code.JOB_UNKNOWN,
                expected=f"a job in the YARN application {application}",
                found=f"job {self.name} in {found}",
                where=str(self._folder),
                next_step=f"leave the application out, or give {found}",
            )
        return True

    # --- requests --------------------------------------------------------------------------------------------

    def checkpoint(self, *, id: str | None = None) -> Ticket:
        """Take a checkpoint. Done when all rows that the job has read so far are visible."""
        return self.ask(Kind.CHECKPOINT, id=id)

    def savepoint(
        self, into: str | None = None, *, format: SavepointFormat = SavepointFormat.NATIVE, id: str | None = None
    ) -> Ticket:
        """Take a savepoint of the running job, which keeps running."""
        return self.ask(Kind.SAVEPOINT, into=into, format=format, id=id)

    def stop(self, *, id: str | None = None) -> Ticket:
        """Stop the running job after its current epoch is done. The next start resumes after this epoch."""
        return self.ask(Kind.STOP, id=id)

    def stop_with_savepoint(
        self, into: str | None = None, *, format: SavepointFormat = SavepointFormat.NATIVE, id: str | None = None
    ) -> Ticket:
        """Stop with a savepoint of the last epoch. If the job has ended already, only the savepoint is taken."""
        return self.ask(Kind.STOP_WITH_SAVEPOINT, into=into, format=format, id=id)

    def drain(self, *, id: str | None = None) -> Ticket:
        """End the running job for good: every open window and timer fires, as at the end of time."""
        return self.ask(Kind.DRAIN, id=id)

    def drain_with_savepoint(
        self, into: str | None = None, *, format: SavepointFormat = SavepointFormat.NATIVE, id: str | None = None
    ) -> Ticket:
        """Drain with a savepoint of the end. The savepoint can be read; no job can be restored from it."""
        return self.ask(Kind.DRAIN_WITH_SAVEPOINT, into=into, format=format, id=id)

    def cancel(self, *, id: str | None = None) -> Ticket:
        """End the running job at once. Undecided epochs are aborted; the next start reads their input again."""
        return self.ask(Kind.CANCEL, id=id)

    def cancel_with_savepoint(
        self, into: str | None = None, *, format: SavepointFormat = SavepointFormat.NATIVE, id: str | None = None
    ) -> Ticket:
        """Cancel with a savepoint of the newest epoch that is done."""
        return self.ask(Kind.CANCEL_WITH_SAVEPOINT, into=into, format=format, id=id)

    def ask(
        self,
        kind: Kind,
        *,
        into: str | None = None,
        format: SavepointFormat = SavepointFormat.NATIVE,
        id: str | None = None,
    ) -> Ticket:
        """Send a request of any kind. It is sent at once if the job runs.

        Raises REQUEST_REFUSED if the id is not a valid name, or belongs to a different request.
        """
        from tidegate.operate.asking import RequestOrder, new_id
        from tidegate.operate.patience import patience_seconds
        from tidegate.operate.tickets import Ticket

        folder = str(Folder.of(into)) if into else None
        asked = RequestOrder(kind=kind, id=id or new_id(), into=folder, format=format)
        ticket = Ticket(self._folder, asked, patience_seconds(kind, self.view().beat))
        ticket.poll()
        return ticket

    def ticket(self, id: str) -> Ticket | None:
        """The ticket of an earlier request of any process; None if the job has no request with this id."""
        from tidegate.operate.tickets import ticket_of

        return ticket_of(self._folder, id, self.view().beat)

    def look(self, id: str) -> TicketView | None:
        """An earlier request of any process, as it is now; None if the job has no request with this id. Only reads."""
        from tidegate.operate.tickets import look_at

        return look_at(self._folder, id)

    def progress(self, id: str) -> CopyProgress | None:
        """How far the running job has copied the savepoint of this request; None if it copies none."""
        from tidegate.operate.copy_progress import read_progress

        return read_progress(self._folder, id)

    def takes_savepoint(self, kind: Kind) -> bool:
        """True if this request takes a savepoint. A plain stop does if the job's `savepoints.dir` is set."""
        from tidegate.operate.patience import takes_savepoint

        return takes_savepoint(kind, self.view().beat)

    # --- transactions, and removal of checkpoints --------------------------------------------------------------

    def transactions(self, options: Mapping[str, str] = _NO_OPTIONS) -> Transactions:
        """The waiting transactions of the job's sinks, with the verdict on each.

        `options`: options of Kafka sinks that the job's folder does not store because they may be secrets.
        """
        from tidegate.operate.place import open_job
        from tidegate.operate.transactions import look

        return look(open_job(self._folder), options).frozen()

    def commit(
        self,
        transaction: str,
        options: Mapping[str, str] = _NO_OPTIONS,
        *,
        force: str | None = None,
        patience_seconds: float = 30.0,
    ) -> Ended:
        """Commit a decided transaction by its full name, together with its epoch and all decided epochs before it.

        The job must not run. `force`: the same name again, to commit against the verdict. `patience_seconds`: how long
        to wait for a sink that is not ready. Raises DRIVER_ALIVE, TRANSACTION_UNNAMED, TRANSACTION_KEPT.
        """
        from tidegate.operate.verdicts import Act

        return self._settle(Act.COMMIT, transaction, options, force, patience_seconds)

    def abort(self, transaction: str, options: Mapping[str, str] = _NO_OPTIONS, *, force: str | None = None) -> Ended:
        """Abort a transaction that no decision names. Its input is replayed. Raises the errors of `commit`."""
        from tidegate.operate.verdicts import Act

        return self._settle(Act.ABORT, transaction, options, force, 0.0)

    def _settle(
        self, act: Act, transaction: str, options: Mapping[str, str], force: str | None, patience_seconds: float
    ) -> Ended:
        from tidegate.disk.strikes import STRIKES
        from tidegate.operate.place import open_job
        from tidegate.operate.settle import Order, settle

        order = Order(
            act=act,
            name=transaction,
            options=options,
            force=force,
            patience_seconds=patience_seconds,
            reach=STRIKES.reach,
        )
        return settle(open_job(self._folder), order)

    def forget(self, options: Mapping[str, str] = _NO_OPTIONS) -> Clearance:
        """Remove the checkpoints of the job, which must not run, and its data in the sinks. Visible rows stay.

        After a kill, `open_to_forget` finds the job again. Raises DRIVER_ALIVE, SUPERVISOR_ALIVE, SINK_OUT_OF_REACH.
        """
        from tidegate.operate.forgettable_job import ForgettableJob

        return ForgettableJob(self._folder).forget(options)


# --- the storage ---------------------------------------------------------------------------------------------


def existing_folder(named: str, where: str) -> Folder:
    """The folder of a storage. On a disk it must exist: raises FOLDER_UNKNOWN, with similar names beside it. Raises
    SETTING_VALUE for an unknown scheme.
    """
    folder = Folder.of(named)
    if folder.is_local and not folder.local().is_dir():
        raise _no_folder(folder.local(), where)
    return folder


def _no_folder(folder: Path, where: str) -> TidegateError:
    there = next(path for path in folder.parents if path.is_dir())
    beside = [str(there / each.name) for each in there.iterdir() if each.is_dir()] if os.access(there, os.R_OK) else []
    return TidegateError(
        Code.FOLDER_UNKNOWN,
        expected="a folder with jobs",
        found="a file" if folder.exists() else f"no such folder; {there} is there",
        where=f"{where} {folder}",
        next_step=did_you_mean(str(folder), beside, "name the checkpointing.dir that the job was started with"),
    )
