"""Savepoints of a running job: in a thread of their own, one after another, so that no epoch and no request waits.

The end of the job does not wait for a savepoint either: it cancels the running copy. A canceled copy no longer reads
the job's folder.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import replace
from functools import partial
from queue import SimpleQueue

from tidegate.core.errors import Code, TidegateError
from tidegate.core.names import NAME_RULE, is_name, shown
from tidegate.core.records import SavepointFormat
from tidegate.operate.endings import EndMode
from tidegate.operate.refusals import no_folder_for_it, request_refused
from tidegate.savepoints.copying import Copying
from tidegate.savepoints.elsewhere import check_into, take_into, take_last_into
from tidegate.savepoints.folder import Savepoint
from tidegate.savepoints.running_job import RunningJob
from tidegate.savepoints.take import check_form
from tidegate.spark.refusals import begins_anew
from tidegate.storages.schemes import Folder

_LOG = logging.getLogger("tidegate")
_CALLED_OFF_WITHIN_SECONDS = 10.0
"""Longest time to copy a block or sync a file. A disk that hangs does not delay the end of a job."""

_REMEMBERED = 20
"""Number of ended savepoints that are remembered. For older ones the savepoint's own folder shows its id."""

_NATIVE = SavepointFormat.NATIVE


class Taking:
    """A savepoint that was begun: its progress and its result."""

    def __init__(self, savepoint_id: str, into: Folder, form: SavepointFormat, what: str) -> None:
        self.id = savepoint_id
        self.into = into
        self.form = form
        self.copying = Copying(what)
        self._outcome: Future[Savepoint] = Future()
        self._settling = threading.Lock()

    def is_over(self) -> bool:
        """True if the savepoint is complete, or has failed."""
        return self._outcome.done()

    def has_failed(self) -> bool:
        """True if the attempt has ended without a savepoint."""
        return self.is_over() and self._outcome.exception() is not None

    def result(self) -> Savepoint:
        """Wait until the savepoint is over, and return it. Raises the error of a failed savepoint."""
        return self._outcome.result()

    def settle(self, outcome: Savepoint | BaseException) -> None:
        """Set the result. The first call counts."""
        with self._settling:
            if self._outcome.done():
                return
            if isinstance(outcome, BaseException):
                self._outcome.set_exception(outcome)
            else:
                self._outcome.set_result(outcome)

    def cut_off(self, why: str) -> None:
        """Cancel the savepoint, and wait until it is over, at most `_CALLED_OFF_WITHIN_SECONDS`."""
        self.copying.call_off(why)
        self.end_by(time.monotonic() + _CALLED_OFF_WITHIN_SECONDS)

    def end_by(self, at: float) -> None:
        """Wait until the savepoint is over. `at`: the end of the wait, a time of the monotonic clock in seconds.

        A savepoint that is not over by then counts as canceled.
        """
        wait([self._outcome], max(0.0, at - time.monotonic()))
        if not self.is_over():
            self.settle(self.copying.hung() if self.copying.appears else self.copying.cut_off())


class SavepointTaker:
    """Takes the savepoints of one job. `default`: the folder for requests without one. `in_container`: the working
    folder of this process goes with it. `told`: called with each complete savepoint, from the thread that has taken
    it; it must not wait.
    """

    def __init__(
        self,
        job: RunningJob,
        default: str | None,
        *,
        in_container: bool = False,
        told: Callable[[Savepoint], None] = lambda _: None,
    ) -> None:
        self._job = job
        self._told = told
        self._default = default
        self._in_container = in_container
        self._lock = threading.Lock()
        self._begun: dict[str, Taking] = {}
        self._queue: SimpleQueue[Taking | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._over: str | None = None
        self._last: Taking | None = None
        """The savepoint of the job's end."""

    def are_taken_unasked(self) -> bool:
        """True if a plain stop takes a savepoint, because a default folder for savepoints is set."""
        return self._default is not None

    def check(self, savepoint_id: str, into: str | None, form: SavepointFormat = _NATIVE) -> Folder:
        """The folder that this savepoint would create; it does not exist yet.

        Raises REQUEST_REFUSED if none can be taken.
        """
        where = f"job {self._job.record.name}"
        if self._over is not None:
            raise request_refused("a job that runs", self._over, where, "start it, then take the savepoint")
        if not is_name(savepoint_id):
            raise request_refused(f"an id of {NAME_RULE}", shown(savepoint_id), where, "choose another id")
        named = into or self._default
        if named is None:
            raise no_folder_for_it("none", where, "name a folder, or set savepoints.dir for it")
        folder = Folder.of(named)
        if self._in_container and folder.is_local and not named.startswith(("/", "file:")):
            goes = f"{named}, below the folder of the driver's container, which is removed with it"
            raise no_folder_for_it(goes, where, "name it by a URI: hdfs://host:port/path or s3://bucket/path")
        standing = self._begun.get(savepoint_id)
        if standing is not None and not standing.has_failed() and (standing.into, standing.form) != (folder, form):
            found = f"{savepoint_id}, the id of a {standing.form.value} savepoint in {standing.into}"
            wanted = f"an unused id, or one of a {form.value} savepoint in {folder}"
            raise request_refused(wanted, found, where, "choose another id")
        return folder

    def look_at(self, savepoint_id: str, into: str | None, form: SavepointFormat = _NATIVE) -> Future[None]:
        """Create the folder for a savepoint in a separate thread, and check that savepoints can be written there.

        The result is a future, because a disk may hang: the requesting thread need not wait. The future gets a storage
        error if the folder cannot be used. Raises REQUEST_REFUSED like `check`.
        """
        folder, looked = self.check(savepoint_id, into, form), Future[None]()
        look = partial(_look_at, self._job, folder, form, looked)
        threading.Thread(target=look, name="tidegate-savepoint-folder", daemon=True).start()
        return looked

    def begin(self, savepoint_id: str, into: str | None, form: SavepointFormat = _NATIVE) -> Taking:
        """Begin to take a savepoint. While it is taken, another call with the same id returns the same `Taking`. When
        it is over, a call with the same id begins again: it finds the complete savepoint, or retries a failed one.

        Raises REQUEST_REFUSED, also if the id belongs to another folder or format, or if the job has ended.
        """
        with self._lock:
            folder = self.check(savepoint_id, into, form)
            standing = self._begun.get(savepoint_id)
            if standing is not None and not standing.is_over():
                return standing
            if self._last is not None:
                found = f"one that ends with savepoint {self._last.id}"
                raise request_refused(
                    "a job that runs", found, f"job {self._job.record.name}", "wait for that savepoint"
                )
            return self._begin(Taking(savepoint_id, folder, form, self._named(savepoint_id)))

    def begin_last(
        self, savepoint_id: str, into: str | None, form: SavepointFormat = _NATIVE, ending: EndMode = EndMode.STOP
    ) -> Taking:
        """Take the savepoint of the job's end, after every query has ended, drained or not. A separate thread takes it.

        All other savepoints are canceled. The thread waits for them at most `_CALLED_OFF_WITHIN_SECONDS`, because one
        of them may hang on another disk. Raises REQUEST_REFUSED.
        """
        with self._lock:
            folder = self.check(savepoint_id, into, form)
            others = list(self._begun.values())
            for other in others:
                other.copying.call_off("the job ends with another savepoint")
            self._last = taking = Taking(savepoint_id, folder, form, self._named(savepoint_id))
            self._remember(taking)
        act = partial(
            self._take_the_last, taking, others, replace(self._job, checkpoint=None, is_drained=ending is EndMode.DRAIN)
        )
        threading.Thread(target=act, name="tidegate-last-savepoint", daemon=True).start()
        return taking

    def close(self, why: str) -> None:
        """Called when the job ends: cancel every savepoint that is not complete, and refuse each later one. `why`: the
        reason, for the errors of these savepoints.

        Waits until every savepoint is over, at most `_CALLED_OFF_WITHIN_SECONDS`. A canceled savepoint never appears.
        If the disk of a canceled savepoint hangs, the thread that takes it may still run, but it changes only the
        temporary files of that savepoint.
        """
        with self._lock:
            self._over = why
            begun = list(self._begun.values())
        self._queue.put(None)
        for taking in begun:
            taking.copying.call_off(why)
        _wait_for(begun)

    def _begin(self, taking: Taking) -> Taking:
        self._remember(taking)
        self._queue.put(taking)
        if self._thread is None:  # a daemon: a process does not wait for a disk that hangs
            self._thread = threading.Thread(target=self._take_all, name="tidegate-savepoint", daemon=True)
            self._thread.start()
        return taking

    def _named(self, savepoint_id: str) -> str:
        return f"savepoint {savepoint_id} of job {self._job.record.name}"

    def _remember(self, taking: Taking) -> None:
        self._begun.pop(taking.id, None)
        over = [each.id for each in self._begun.values() if each.is_over()]
        for savepoint_id in over[: max(0, len(over) - _REMEMBERED)]:
            del self._begun[savepoint_id]
        self._begun[taking.id] = taking

    def _take_all(self) -> None:
        _give_way()
        while (taking := self._queue.get()) is not None:
            self._carry_out(taking, take_into, replace(self._job, runs_on=True))

    def _take_the_last(self, taking: Taking, others: Sequence[Taking], job: RunningJob) -> None:
        _wait_for(others)
        self._carry_out(taking, take_last_into, job)

    def _carry_out(
        self,
        taking: Taking,
        act: Callable[[RunningJob, str, Folder, Copying, SavepointFormat], Savepoint],
        job: RunningJob,
    ) -> None:
        try:
            check_into(job, taking.into)
            savepoint = act(job, taking.id, taking.into, taking.copying, taking.form)
            self._told(savepoint)  # first: the end of the job waits for the result alone
            taking.settle(savepoint)
        except TidegateError as error:
            taking.settle(error)
        except BaseException as error:  # noqa: BLE001 (the request gets the error)
            _LOG.exception("savepoint %s could not be taken; the job continues", taking.id)
            taking.settle(error)


def _give_way() -> None:
    """Epochs have priority: this thread gets a tenth of a busy core, and all of an idle one (setpriority(2), which
    Linux has for a thread).
    """
    if sys.platform == "linux":
        with suppress(OSError):  # a sandbox may forbid it: then they share the cores equally
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)


_NICENESS = 10


def _wait_for(called_off: Sequence[Taking]) -> None:
    """Wait until all these savepoints are over. A savepoint that a hanging disk blocks counts as canceled."""
    at = time.monotonic() + _CALLED_OFF_WITHIN_SECONDS
    for taking in called_off:
        taking.end_by(at)


def _look_at(job: RunningJob, folder: Folder, form: SavepointFormat, looked: Future[None]) -> None:
    try:
        check_form(job, form)
        check_into(job, folder)
    except BaseException as error:  # noqa: BLE001 (the request gets the error)
        looked.set_exception(error)
    else:
        looked.set_result(None)


def not_of_this_job(name: str) -> TidegateError:
    """The error for a savepoint of an at-most-once job, which cannot resume. `name`: the name of the job."""
    return begins_anew(Code.SAVEPOINT_REFUSED, name, "choose another level, or continue without savepoints")
