"""The Python API for jobs that run elsewhere: `from tidegate import operate`.

`tidegate list`, `info`, `stop` and all other commands are built on it. It needs no Spark, prints nothing, and works
from every process that reaches the storage. What only an action needs is loaded when it is used.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.checkpoints.job_layout import job_names
from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import SavepointFormat
from tidegate.core.spelling import did_you_mean
from tidegate.operate.checkpoints_history import ENTRIES_KEPT
from tidegate.operate.control import Kind
from tidegate.operate.job_views import JobHistory, JobInfo, read_history, read_info
from tidegate.operate.status import JobView, find_job_folder, find_jobs, view_job
from tidegate.storages.schemes import place_of

if TYPE_CHECKING:
    from tidegate.operate.forgetting import Clearance
    from tidegate.operate.settle import Ended
    from tidegate.operate.tickets import Ticket
    from tidegate.operate.transactions import Transactions
    from tidegate.operate.verdicts import Act

_NO_OPTIONS: Mapping[str, str] = {}


def open(storage: str | Path, job: str) -> JobClient:
    """A job by its name, or by its id. `storage`: the `checkpointing.dir` of its program, as a path or `file:///path`.

    Raises JOB_UNKNOWN, UID_INVALID for what cannot be a job's name, SETTING_VALUE for an unknown scheme.
    """
    return JobClient(find_job_folder(folder_of(storage), job))


def jobs(storage: str | Path) -> tuple[JobView, ...]:
    """All jobs of a storage, by name. A job that cannot be read says so in `problem` and hides no other one."""
    return tuple(find_jobs(folder_of(storage)))


def names(storage: str | Path) -> tuple[str, ...]:
    """The names of the jobs that have begun: quicker than `jobs`, which reads each of them."""
    return tuple(job_names(folder_of(storage)))


def list_transactions(storage: str | Path, options: Mapping[str, str] = _NO_OPTIONS) -> tuple[Transactions, ...]:
    """What waits in each job of a storage. A job that cannot be read is among the problems, and hides no other one."""
    from tidegate.operate.place import open_job
    from tidegate.operate.transactions import Transactions, look

    def of_one(folder: Path) -> Transactions:
        try:
            return look(open_job(folder), options).frozen()
        except TidegateError as error:
            return Transactions(problems=(error,))

    root = folder_of(storage)
    return tuple(of_one(root / name) for name in job_names(root))


class JobClient:
    """One job, operated from outside. Every call reads anew; nothing is cached.

    Actions give a `Ticket`: `ticket.poll()` looks, `ticket.wait()` waits. `id` names the request: asked again under its
    id, it is the same one. A savepoint goes `into` a folder; None: into that of the job's own setting `savepoints.dir`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def name(self) -> str:
        return self._folder.name

    @property
    def folder(self) -> str:
        """Where all that is durable of the job stands."""
        return str(self._folder)

    # --- looking ---------------------------------------------------------------------------------------------

    def view(self) -> JobView:
        """How the job is: its state, and what its driver said of itself last."""
        return view_job(self._folder)

    def info(self) -> JobInfo:
        """The same with its queries, settings and retained checkpoints. Raises STORAGE_UNUSABLE, RECORD_..."""
        return read_info(self._folder)

    def history(self, newest: int = ENTRIES_KEPT) -> JobHistory:
        """Checkpoints, failures and restarts, at most `newest` of each. Raises STORAGE_UNUSABLE, RECORD_..."""
        return read_history(self._folder, newest)

    # --- asking ----------------------------------------------------------------------------------------------

    def checkpoint(self, *, id: str | None = None) -> Ticket:
        """Done when everything is visible that the running job has read by now."""
        return self.ask(Kind.CHECKPOINT, id=id)

    def savepoint(
        self, into: str | None = None, *, format: SavepointFormat = SavepointFormat.NATIVE, id: str | None = None
    ) -> Ticket:
        """Take a savepoint of the running job, which keeps running."""
        return self.ask(Kind.SAVEPOINT, into=into, format=format, id=id)

    def stop(self, *, id: str | None = None) -> Ticket:
        """End the running job with the epoch under way done. The next start resumes behind it."""
        return self.ask(Kind.STOP, id=id)

    def stop_with_savepoint(
        self, into: str | None = None, *, format: SavepointFormat = SavepointFormat.NATIVE, id: str | None = None
    ) -> Ticket:
        """The same with a savepoint of the last epoch. Of a job that has ended, the savepoint alone is taken."""
        return self.ask(Kind.STOP_WITH_SAVEPOINT, into=into, format=format, id=id)

    def drain(self, *, id: str | None = None) -> Ticket:
        """End the running job for good: every window and timer comes out as at the end of time."""
        return self.ask(Kind.DRAIN, id=id)

    def drain_with_savepoint(
        self, into: str | None = None, *, format: SavepointFormat = SavepointFormat.NATIVE, id: str | None = None
    ) -> Ticket:
        """The same with a savepoint of that end, which can be read; no job is restored from it."""
        return self.ask(Kind.DRAIN_WITH_SAVEPOINT, into=into, format=format, id=id)

    def cancel(self, *, id: str | None = None) -> Ticket:
        """End the running job at once: what is undecided is aborted, and its input comes again at the next start."""
        return self.ask(Kind.CANCEL, id=id)

    def cancel_with_savepoint(
        self, into: str | None = None, *, format: SavepointFormat = SavepointFormat.NATIVE, id: str | None = None
    ) -> Ticket:
        """The same with a savepoint of the newest done epoch."""
        return self.ask(Kind.CANCEL_WITH_SAVEPOINT, into=into, format=format, id=id)

    def ask(
        self,
        kind: Kind,
        *,
        into: str | None = None,
        format: SavepointFormat = SavepointFormat.NATIVE,
        id: str | None = None,
    ) -> Ticket:
        """Any of these requests, by its kind. It is put to the job at once if the job runs.

        Raises REQUEST_REFUSED where the id is no name, or stands for something else.
        """
        from tidegate.operate.asking import Asked, new_id
        from tidegate.operate.patience import patience_seconds
        from tidegate.operate.tickets import Ticket

        folder = str(Path(into).absolute()) if into else None
        asked = Asked(kind=kind, id=id or new_id(), into=folder, format=format)
        ticket = Ticket(self._folder, asked, patience_seconds(kind, self.view().beat))
        ticket.poll()
        return ticket

    def ticket(self, id: str) -> Ticket | None:
        """A request that was asked before, by whichever process; None where the job knows none of this id."""
        from tidegate.operate.tickets import ticket_of

        return ticket_of(self._folder, id, self.view().beat)

    def takes_savepoint(self, kind: Kind) -> bool:
        """Whether this request gives a savepoint: a plain stop does where the job's `savepoints.dir` is set."""
        from tidegate.operate.patience import takes_savepoint

        return takes_savepoint(kind, self.view().beat)

    # --- transactions, and the end of its checkpoints ----------------------------------------------------------

    def transactions(self, options: Mapping[str, str] = _NO_OPTIONS) -> Transactions:
        """What waits in the job's sinks, with the verdict on each. `options` are those of Kafka sinks that the job's
        folder does not keep because they may be secrets."""
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
        """Commit a decided transaction, by its whole name, with its epoch and every decided one before it.

        The job does not run meanwhile. `force`: the name once more, to do it against the verdict. A sink that is not
        ready is waited for `patience_seconds`. Raises DRIVER_ALIVE, TRANSACTION_UNNAMED, TRANSACTION_KEPT.
        """
        from tidegate.operate.verdicts import Act

        return self._settle(Act.COMMIT, transaction, options, force, patience_seconds)

    def abort(self, transaction: str, options: Mapping[str, str] = _NO_OPTIONS, *, force: str | None = None) -> Ended:
        """Abort a transaction that no decision names. Its input comes again. Raises what `commit` raises."""
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
        """Remove the checkpoints of the job, which does not run, and what its sinks keep of it. Visible rows stay.

        After a kill, `open_to_forget` finds the job again. Raises DRIVER_ALIVE, SUPERVISOR_ALIVE, SINK_OUT_OF_REACH.
        """
        return ForgettableJob(self._folder).forget(options)


class ForgettableJob:
    """A job that is to be forgotten, or whose forgetting a kill has cut short."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def look(self) -> Clearance:
        """What `forget` would remove. It only reads, and asks no sink."""
        from tidegate.operate.forgetting import look_before

        return look_before(self._folder)

    def forget(self, options: Mapping[str, str] = _NO_OPTIONS) -> Clearance:
        """Remove the checkpoints, and what the sinks keep of the job. A second call completes a killed one."""
        from tidegate.operate.forgetting import forget

        return forget(self._folder, options)

    def forget_evidence(self, job_id: str, options: Mapping[str, str] = _NO_OPTIONS) -> Clearance:
        """Let the sinks forget an earlier job of the same name, whose own folder is gone."""
        from tidegate.operate.forgetting import forget_evidence

        return forget_evidence(self._folder, job_id, options)


def open_to_forget(storage: str | Path, job: str) -> ForgettableJob:
    """A job that is to be forgotten; also one that has no *job.json* any more. Raises JOB_UNKNOWN, UID_INVALID."""
    from tidegate.operate.forgetting import find_forgettable

    return ForgettableJob(find_forgettable(folder_of(storage), job))


# --- the storage ---------------------------------------------------------------------------------------------


def folder_of(storage: str | Path) -> Path:
    """The folder of a storage. Raises SETTING_VALUE for a scheme that no storage here has."""
    return Path(place_of(storage).path)


def existing_folder(named: str, where: str) -> Path:
    """The same folder, which must be there. Raises FOLDER_UNKNOWN, with the near names beside it."""
    folder = Path(named).absolute()
    if not folder.is_dir():
        raise _no_folder(folder, where)
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
