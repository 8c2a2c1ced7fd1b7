"""A job from its start to its end: its watching thread, and the requests that it accepts."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tidegate.checkpoints.drained import DrainRecord
from tidegate.core.effects import Happening
from tidegate.core.errors import TidegateError
from tidegate.core.records import SavepointFormat
from tidegate.operate.beat import JobState, Wrong
from tidegate.operate.endings import EndMode
from tidegate.operate.job_end import (
    STATE,
    Left,
    gives_up_its_checkpoints,
    is_left_to_the_next_start,
    is_of_an_unready_sink,
    leaves_a_drain,
    wanted,
    wrong_of,
)
from tidegate.spark.asked_end import AskedEnd
from tidegate.spark.companions import Companion
from tidegate.spark.drain_errors import not_drained
from tidegate.spark.draining import Draining, Reins
from tidegate.spark.job_runs import JobRuns, RunRules
from tidegate.spark.job_status import JobStatus, status_of
from tidegate.spark.last_savepoint import LastSavepoint, no_last_savepoint
from tidegate.spark.log_of_job import Log
from tidegate.spark.query_plan import QueryPlan
from tidegate.spark.query_run import QueryRun
from tidegate.spark.savepointing import SavepointTaker, not_of_this_job

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
    ) -> None:
        self.name = name
        self.last_savepoint = LastSavepoint(name)
        self._savepoints = savepoints
        self._companions = (Log(name), *companions)
        self._bounded = rules.bounded
        self._folders = {plan.query.uid: plan.folder for plan in plans}
        self._draining = Draining(drain)
        self._asked = AskedEnd(stop_timeout_seconds, goes_on_draining=self._draining.goes_on)
        self._runs = JobRuns(session, plans, rules, self._asked, self._draining, self._tell)
        self._at_end: Callable[[], None] = _nothing
        self._may_watch = threading.Event()
        self._ended = threading.Event()
        self._error: BaseException | None = None
        self._left_behind: TidegateError | None = None
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
            self._runs.start(recover_only=self._draining.goes_on, started=self._tell_started)
            self._may_watch.set()
        except BaseException as error:
            if self._may_watch.is_set():  # an interrupt after the start: the watching thread exists
                raise
            self._note(error)
            self.last_savepoint.pass_by(error)
            self._give_up_the_start()
            if not (self._asked.of_this_start and is_of_an_unready_sink(error)):
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
        self._end_by(EndMode.STOP, self._asked.timeout_seconds if timeout_seconds is None else timeout_seconds)

    def ask_to_drain(self, timeout_seconds: float | None = None) -> None:
        """Like `stop` with `drain`, without waiting."""
        self._end_by(EndMode.DRAIN, self._asked.timeout_seconds if timeout_seconds is None else timeout_seconds)

    def ask_to_cancel(self) -> None:
        """Like `cancel`, without waiting."""
        self._end_by(EndMode.CANCEL, 0.0)

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
        already ending.
        """
        drained = ending is EndMode.DRAIN
        with self._asked.lock:
            if self._asked.ending is EndMode.DRAIN and not drained:
                raise no_last_savepoint(self.name, "the job is being drained: nothing resumes from its end")
            into = None if folder is None else str(folder)
            self.last_savepoint.ask(self.savepoints(), id, into, form, drained=drained)
            default = 0.0 if ending is EndMode.CANCEL else self._asked.timeout_seconds
            self._end_by(ending, default if timeout_seconds is None else timeout_seconds, with_savepoint=True)

    def under_way(self) -> dict[str, int]:
        """For each query, the current epoch, or the newest done one if there is none."""
        return {uid: max(figures.epoch, figures.finished, 0) for uid, figures in self._runs.figures.items()}

    def has_done(self, epochs: Mapping[str, int]) -> bool:
        """True if all these epochs, by query, are done."""
        return all(self._runs.figures[uid].finished >= epoch for uid, epoch in epochs.items())

    def finished(self) -> dict[str, int]:
        """For each query, the newest done epoch; -1 if there is none."""
        return {uid: figures.finished for uid, figures in self._runs.figures.items()}

    def last_epoch_ms(self, uid: str) -> float | None:
        """Duration of the newest done epoch of a query, from Spark's choice of its input on."""
        return next(reversed(self._runs.figures[uid].epoch_ms), None)

    def epoch_seconds(self) -> float:
        """Longest remaining time of the current epochs; 0 if there is none."""
        return max((run.epoch_seconds for run in list(self.runs)), default=0.0)

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

    def folder_of(self, uid: str) -> Path:
        """The folders of a query's ledger and of Spark's log."""
        return self._folders[uid]

    @property
    def left_behind(self) -> TidegateError | None:
        """The error because of which a cancel has left a decided epoch to the next start; None if it left none."""
        return self._left_behind or self._runs.left_behind()

    @property
    def is_drained(self) -> bool:
        """True if the job has been drained to its end."""
        return self._draining.is_done

    def not_drained(self) -> TidegateError:
        """The answer to a request for a drain if the job has ended well without one."""
        return not_drained(f"job {self.name}", self.end_state(None).value, stands=self._draining.stands)

    @property
    def leaves_a_drain(self) -> bool:
        """True if the job failed during a drain that the next start resumes."""
        return leaves_a_drain(
            self._asked.ending, self._error, asked=self._asked.of_this_start, stands=self._draining.stands
        )

    @property
    def has_given_up_its_checkpoints(self) -> bool:
        """True if the job was canceled, and a next start would have nothing to finish."""
        return gives_up_its_checkpoints(self._asked.ending, self._error or self.last_savepoint.error, self._left)

    def _left(self) -> Left:
        if self.left_behind is not None:
            return Left.EPOCH
        return Left.THREAD if self.may_still_write() else Left.NOTHING

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

    def end_state(self, error: BaseException | None) -> JobState:
        """The state of a job that has ended with this error, or with none."""
        caught_up = self._bounded and self._draining.goes_on
        was_wanted = wanted(self._asked.ending, asked=self._asked.of_this_start, catches_up_with_a_drain=caught_up)
        return STATE.cell(was_wanted, self.wrong(error))

    def wrong(self, error: BaseException | None) -> Wrong:
        """The cause class of a job that has ended with this error, or with none."""
        return wrong_of(error, is_the_last_savepoint=self.last_savepoint.is_all_that_failed)

    def error(self) -> BaseException | None:
        """The error of a failed job; None while it runs, or if it ended well."""
        return self._error

    def status(self) -> JobStatus:
        """The current state of the job."""
        behind = {run.plan.query.uid: run.behind() for run in list(self.runs)}
        queries = tuple(status_of(uid, figures, behind.get(uid)) for uid, figures in self._runs.figures.items())
        return JobStatus(name=self.name, running=not self._ended.is_set(), queries=queries)

    def _end_by(self, ending: EndMode, timeout_seconds: float, *, with_savepoint: bool = False) -> None:
        with self._asked.lock:
            if self._ended.is_set():  # by itself, without a request
                return
            if self._asked.of_this_start and not with_savepoint:
                why = f"the end of the job was requested once more ({ending.value})"
                self.last_savepoint.limit(why, timeout_seconds)
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
        tell = partial(self._tell_the_end, self._note)
        for step in (partial(self._runs.watch, self._look), self._drain, self._take_the_last, tell, self._release):
            try:
                step()
            except BaseException as error:  # noqa: BLE001 (the first is kept, and raised by `wait`)
                self._note(error)
        self._ended.set()

    def _keep_time(self) -> None:
        while not self._ended.wait(_LOOK_SECONDS):
            self._runs.keep_time()

    def _note(self, error: BaseException) -> None:
        if is_left_to_the_next_start(error, self._asked.ending):
            self._left_behind = self._left_behind or error
        else:
            self._error = self._error or error

    def _tell_the_end(self, note: Callable[[BaseException], None]) -> None:
        """Cancel running savepoints, then notify every companion, even if others raise."""
        if self._savepoints is not None:
            self._savepoints.close(f"the job is {self.end_state(self._error).value}")
        for companion in self._companions:
            try:
                companion.ended(self._error)
            except BaseException as error:  # noqa: BLE001 (noted)
                note(error)

    def _release(self) -> None:
        """Release everything that the job holds. Not while a thread may live that can still write."""
        try:
            held = self.may_still_write()
        except BaseException:
            _kept_for_life.append(self._at_end)
            raise
        if held:
            _kept_for_life.append(self._at_end)
        else:
            self._at_end()

    def may_still_write(self) -> bool:
        """True if a thread of a query lives that cannot be stopped: this process keeps everything that the job
        holds.
        """
        return self._runs.may_still_write()

    def _drain(self) -> None:
        if self._asked.ending is not EndMode.DRAIN or self._error is not None:
            return
        self._draining.begin()  # requested while the queries were stopping
        reins = Reins(self._runs.another_run_of, self._look, lambda: self._asked.ending is EndMode.CANCEL)
        self._draining.carry_out(self._runs.now, reins)
        if self._draining.is_done:
            self._draining.seal(self._companions)

    def _take_the_last(self) -> None:
        if self.last_savepoint.pass_by(self._against_the_last()) and self._savepoints is not None:
            self.last_savepoint.take(self._savepoints, self._look)

    def _against_the_last(self) -> BaseException | None:
        """The reason why no savepoint of the job's end can be taken; None if it can."""
        if self._error is not None or self.left_behind is not None:
            return self._error or self.left_behind
        if self.may_still_write():
            return no_last_savepoint(self.name, "a query that cannot be stopped")
        if self.last_savepoint.is_of_a_drain:
            return None if self._draining.is_done else self.not_drained()
        if self._asked.ending is EndMode.DRAIN:
            return no_last_savepoint(self.name, "the job was drained: nothing resumes from its end")
        return None

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
