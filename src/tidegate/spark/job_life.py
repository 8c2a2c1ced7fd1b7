"""A job from its start to its end: its watching thread, and the requests that it accepts."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tidegate.checkpoints.drained import DrainRecord
from tidegate.core.effects import Happening
from tidegate.core.errors import TidegateError
from tidegate.core.records import SavepointFormat
from tidegate.operate.endings import AskedOf, EndMode
from tidegate.operate.job_end import is_of_an_unready_sink
from tidegate.spark.asked_end import AskedEnd
from tidegate.spark.companions import Companion
from tidegate.spark.draining import Draining
from tidegate.spark.job_outcome import OutcomeOfJob
from tidegate.spark.job_runs import JobRuns, RunRules
from tidegate.spark.job_status import JobStatus, status_of
from tidegate.spark.last_savepoint import LastSavepoint, no_last_savepoint
from tidegate.spark.log_of_job import Log
from tidegate.spark.query_plan import QueryPlan
from tidegate.spark.query_run import QueryRun
from tidegate.spark.reading_out import Reins, read_out_all
from tidegate.spark.savepointing import SavepointTaker, not_of_this_job
from tidegate.storages.schemes import Folder

_LOG = logging.getLogger("tidegate")
_LOOK_SECONDS = 0.05


class JobLife:
    """A job from its start to its end, with all requests that do not wait (`LiveJob`). Its own thread watches the runs
    of its queries, and ends the job. Another thread measures the time of their epochs.
    """

    def __init__(
        self,
        *,
        name: str,
        session: SparkSession,
        plans: Sequence[QueryPlan],
        rules: RunRules,
        stop_timeout_seconds: float,
        companions: Sequence[Companion] = (),
        drain: DrainRecord | None = None,
        savepoints: SavepointTaker | None = None,
        end_checkpoints: Callable[[str], None] = lambda _why: None,
    ) -> None:
        """`end_checkpoints`: ends the checkpoint across the queries that is under way, given the reason."""
        self.name = name
        self.last_savepoint = LastSavepoint(name)
        self._savepoints = savepoints
        self._end_checkpoints = end_checkpoints
        self._companions = (Log(name), *companions)
        self.lost_lease = rules.lost_lease
        self._folders = {plan.query.uid: plan.folder for plan in plans}
        self._draining = Draining(drain)
        self._has_readers = any(plan.reads_from for plan in plans)
        self._asked = AskedEnd(stop_timeout_seconds, goes_on_draining=self._draining.goes_on)
        self._runs = JobRuns(session, plans, rules, self._asked, self._draining, self._tell)
        self.figures = self._runs.figures
        self.outcome = OutcomeOfJob(name, rules.until, self._asked, self._draining, self.last_savepoint, self._runs)
        self._at_end: Callable[[], None] = _nothing
        self._may_watch = threading.Event()
        self._ended = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="tidegate-job", daemon=True)
        self._clock = threading.Thread(target=self._keep_time, name="tidegate-clock", daemon=True)

    def start(self, at_end: Callable[[], None]) -> None:
        """Recover every query, start every query, and watch them. `at_end` releases everything that the job holds, as
        soon as the job has ended, or here if it does not start.

        Raises the error that prevents the start. Exception: if an end was requested in the meantime, and the only error
        is a sink that does not take a decided epoch yet, the job ends as requested, and `wait` raises this error.
        """
        self._at_end = at_end
        try:
            self._watcher.start()  # now: after the queries run, an error must not leave them without a watching thread
            self._clock.start()
            for companion in self._companions:
                companion.opening(self)
            self._runs.start(self._tell_started)
            self._may_watch.set()
        except BaseException as error:
            if self._may_watch.is_set():  # an interrupt after the start: the watching thread exists
                raise
            self.outcome.note(error)
            self.last_savepoint.pass_by(error)
            self._give_up_the_start()
            if not (self._asked.asked_of is AskedOf.THIS_START and is_of_an_unready_sink(error)):
                raise

    def _give_up_the_start(self) -> None:
        for step in (partial(self._tell_the_end, _log_beside), self._release):
            try:
                step()
            except BaseException as beside:  # noqa: BLE001 (the start's own error is raised)
                _log_beside(beside)
        self._ended.set()
        self._may_watch.set()

    @property
    def runs(self) -> list[QueryRun]:
        """The current run of each query."""
        return self._runs.now

    def savepoints(self) -> SavepointTaker:
        """The part that takes the job's savepoints. Raises SAVEPOINT_REFUSED if the job can have none."""
        if self._savepoints is None:
            raise not_of_this_job(self.name)
        return self._savepoints

    def ask_to_stop(self, timeout_seconds: float | None = None) -> None:
        """Like `stop`, without waiting."""
        self._end_sooner(EndMode.STOP, self._asked.timeout_seconds if timeout_seconds is None else timeout_seconds)

    def ask_to_drain(self, timeout_seconds: float | None = None) -> None:
        """Like `stop` with `drain`, without waiting."""
        self._end_sooner(EndMode.DRAIN, self._asked.timeout_seconds if timeout_seconds is None else timeout_seconds)

    def ask_to_cancel(self) -> None:
        """Like `cancel`, without waiting."""
        self._end_sooner(EndMode.CANCEL, 0.0)

    def ask_to_end_with_savepoint(
        self,
        ending: EndMode,
        id: str,
        folder: str | Path | None,
        form: SavepointFormat = SavepointFormat.NATIVE,
        timeout_seconds: float | None = None,
    ) -> None:
        """Like `stop_with_savepoint` and `cancel_with_savepoint`, without waiting, and without a check of the folder.

        Raises if the request is not accepted: the job has no savepoints, is being drained without such a request, or is
        already ending. In a job with channels their readers read them to the end first, within the time of a stop: a
        savepoint is one cut across them.
        """
        with self._asked.lock:
            if self._asked.ending is EndMode.DRAIN and ending is not EndMode.DRAIN:
                raise no_last_savepoint(self.name, "the job is being drained: nothing resumes from its end")
            into = None if folder is None else str(folder)
            self.last_savepoint.ask(self.savepoints(), id, into, form, ending)
            at_once = ending is EndMode.CANCEL and not self._has_readers
            default = 0.0 if at_once else self._asked.timeout_seconds
            self._end_by(ending, default if timeout_seconds is None else timeout_seconds)

    def finished(self) -> dict[str, int]:
        """For each query, the newest done epoch; -1 if there is none."""
        return self.figures.finished()

    def epoch_seconds(self) -> float:
        """Longest remaining time of the current epochs; 0 if there is none."""
        return max((run.threads.epoch_seconds for run in list(self.runs)), default=0.0)

    def failed_place(self) -> dict[str, Any]:
        """The run and query that last ended with an error, and the epoch; None if there is none."""
        return self._runs.failed_place()

    def failed_epochs(self) -> dict[str, int]:
        """For each query, the number of failed epochs in a row."""
        return self._runs.failed_epochs()

    @property
    def tolerated(self) -> TidegateError | None:
        """The tolerated error that ended the job: a failed epoch whose query needs a new process."""
        return self._runs.tolerated

    def folder_of(self, uid: str) -> Folder:
        """The folders of a query's ledger and of Spark's log."""
        return self._folders[uid]

    @property
    def is_drained(self) -> bool:
        """True if the job has been drained to its end."""
        return self.outcome.is_drained

    @property
    def was_asked_to_end(self) -> bool:
        """True if the job was stopped or canceled by a request, with any result."""
        return self._asked.ending is not EndMode.NONE

    @property
    def a_stop_takes_a_savepoint(self) -> bool:
        """True if a plain stop by the command ends the job with a savepoint: the job has a folder for savepoints, and
        its end was not requested before.
        """
        return (
            self._savepoints is not None and self._asked.ending is EndMode.NONE and self._savepoints.are_taken_unasked()
        )

    def error(self) -> BaseException | None:
        """The error of a failed job; None while it runs, or if it ended well."""
        return self.outcome.error

    def status(self) -> JobStatus:
        """The current state of the job."""
        behind = {run.plan.query.uid: run.progress.behind() for run in list(self.runs)}
        queries = tuple(status_of(uid, figures, behind.get(uid)) for uid, figures in self.figures.of.items())
        return JobStatus(name=self.name, running=not self._ended.is_set(), queries=queries)

    def _end_sooner(self, ending: EndMode, timeout_seconds: float) -> None:
        """A request without a savepoint. If another one came before, it also limits the wait for that savepoint."""
        with self._asked.lock:
            if self._asked.asked_of is AskedOf.THIS_START and not self._ended.is_set():
                why = f"the end of the job was requested once more ({ending.value})"
                self.last_savepoint.limit(why, timeout_seconds)
        self._end_by(ending, timeout_seconds)

    def _end_by(self, ending: EndMode, timeout_seconds: float) -> None:
        with self._asked.lock:
            if self._ended.is_set():  # by itself, without a request
                return
            self._asked.ask(ending, timeout_seconds)
        self._runs.hurry_all(timeout_seconds)

    def _tell_started(self) -> None:
        for companion in self._companions:
            companion.started(self)

    def _tell(self, query: str, run: int, happening: Happening) -> None:
        for companion in self._companions:
            companion.happened(query, run, happening)

    def _watch(self) -> None:
        self._may_watch.wait()
        if self._ended.is_set():  # the start has failed
            return
        tell = partial(self._tell_the_end, self.outcome.note)
        watch = partial(self._runs.watch, self._look)
        release = partial(self._end_checkpoints, "the job is ending")
        for step in (watch, release, self._read_out, self._drain, self._take_the_last, tell, self._release):
            try:
                step()
            except BaseException as error:  # noqa: BLE001 (the first is kept, and raised by `wait`)
                self.outcome.note(error)
        self._ended.set()

    def _keep_time(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            self._runs.keep_time()

    def _tell_the_end(self, note: Callable[[BaseException], None]) -> None:
        """Cancel running savepoints, then notify every companion, even if others raise."""
        if self._savepoints is not None:
            self._savepoints.close(f"the job is {self.outcome.end_state(self.outcome.error).value}")
        for companion in self._companions:
            try:
                companion.ended(self.outcome.error)
            except BaseException as error:  # noqa: BLE001 (noted)
                note(error)

    def _release(self) -> None:
        """Release everything that the job holds. Not while a thread may live that can still write."""
        try:
            held = self.outcome.may_still_write()
        except BaseException:
            _kept_for_life.append(self._at_end)
            raise
        if held:
            _kept_for_life.append(self._at_end)
        else:
            self._at_end()

    def _read_out(self) -> None:
        """After a stop, and before a savepoint, the readers of channels read what the other queries have written, if
        the time is enough.
        """
        ending = self._asked.ending
        reads = ending is EndMode.STOP or (ending is EndMode.CANCEL and self.last_savepoint.is_asked)
        if not self._has_readers or not reads or self.outcome.error is not None:
            return

        def is_cut_short() -> bool:
            return self._asked.ending is not ending or time.monotonic() > self._asked.deadline

        read_out_all(self._runs.now, Reins(self._runs.another_run_of, self._look, is_cut_short))

    def _drain(self) -> None:
        if self._asked.ending is not EndMode.DRAIN or self.outcome.error is not None:
            return
        self._draining.begin()  # requested while the queries were stopping
        reins = Reins(self._runs.another_run_of, self._look, lambda: self._asked.ending is EndMode.CANCEL)
        self._draining.carry_out(self._runs.now, reins)
        if self._draining.is_done:
            self._draining.seal(self._companions)

    def _take_the_last(self) -> None:
        if self.last_savepoint.pass_by(self.outcome.against_the_last_savepoint()) and self._savepoints is not None:
            self.last_savepoint.take(self._savepoints, self._look)

    def _look(self) -> None:
        for companion in self._companions:
            companion.look()


def _log_beside(error: BaseException) -> None:
    """Log the errors beside the raised one."""
    _LOG.error("beside what ended the start: %s", error, exc_info=error)


def _nothing() -> None:
    return None


_kept_for_life: list[Callable[[], None]] = []
"""Resources that this process keeps until it ends: a thread that cannot be stopped may still write. The JVM releases a
lock with its last reference, so this list holds one.
"""
