"""A started job: wait for it, stop it, ask how it is."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from tidegate.checkpoints.drained import DrainRecord
from tidegate.core.effects import Happening
from tidegate.core.errors import Code, TidegateError
from tidegate.core.happenings import EpochFailed
from tidegate.core.records import SavepointFormat
from tidegate.core.tolerance import Tolerance
from tidegate.disk.durable import is_of_a_failed_sync
from tidegate.disk.locks import keep_for_life
from tidegate.operate.beat import JobState, Wrong
from tidegate.operate.endings import Ending
from tidegate.operate.job_end import (
    STATE,
    Left,
    gives_up_its_checkpoints,
    is_left_to_the_next_start,
    is_of_a_sink,
    leaves_a_drain,
    wanted,
    wrong_of,
)
from tidegate.spark.companions import Companion
from tidegate.spark.drain_errors import not_drained
from tidegate.spark.draining import Draining, Reins
from tidegate.spark.figures import Figures
from tidegate.spark.interrupts import main_thread_waits
from tidegate.spark.job_status import JobStatus, status_of
from tidegate.spark.last_savepoint import LastSavepoint, no_last_savepoint
from tidegate.spark.log_of_job import Log
from tidegate.spark.query_plan import QueryPlan
from tidegate.spark.query_run import QueryRun
from tidegate.spark.savepointing import Savepoints, not_of_this_job
from tidegate.spark.session import lives
from tidegate.supervise.cures import ENDS_THE_DRIVER

_LOG = logging.getLogger("tidegate")
_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Waiting:
    """A query that gets another run, in the same session, at a time of the monotonic clock: whatever ended the last."""

    ended: QueryRun
    restart_at: float


PauseAfter: TypeAlias = Callable[[QueryRun, TidegateError], float | None]
"""The pause before the next run of a query that failed with this error; None: the job fails with it."""


class JobHandle:
    """Queries side by side; when one fails for good the others end cleanly and the job fails with its error."""

    def __init__(
        self,
        *,
        name: str,
        session: SparkSession,
        plans: Sequence[QueryPlan],
        interval_seconds: float,
        bounded: bool,
        stop_timeout_seconds: float,
        tolerable_failures: int = 0,
        failed_epochs: Mapping[str, int] | None = None,
        runs_due_epoch: bool = True,
        companions: Sequence[Companion] = (),
        pause_after: PauseAfter | None = None,
        drain: DrainRecord | None = None,
        savepoints: Savepoints | None = None,
    ) -> None:
        self.name = name
        self._savepoints = savepoints
        self.last_savepoint = LastSavepoint(name)
        self._pause_after = pause_after
        self._waiting: list[Waiting] = []
        self._failed: QueryRun | None = None
        self._companions = (Log(name), *companions)
        self._session = session
        self._trigger = trigger_of(bounded, interval_seconds)
        self._bounded = bounded
        self._leaves_due_epoch = bounded and not runs_due_epoch
        self._figures = {plan.query.uid: Figures() for plan in plans}
        self._folders = {plan.query.uid: plan.folder for plan in plans}
        before = failed_epochs or {}
        self._tolerances = {
            plan.query.uid: Tolerance(tolerable_failures, before.get(plan.query.uid, 0)) for plan in plans
        }
        self.tolerated: TidegateError | None = None
        """What has ended the job, where it is tolerated: a failed epoch whose query needs a new process."""
        self.runs = [self._run_of(plan) for plan in plans]
        self._at_end: Callable[[], None] = _nothing
        self._may_watch = threading.Event()
        self._stop_asked = threading.Event()
        self._draining = Draining(drain)
        self._ending = Ending.DRAIN if self._draining.goes_on else Ending.NONE
        self._asked = False
        """Whether this start was asked to end; what an earlier one was asked goes on, and is nobody's request here."""
        if self._draining.goes_on:
            self._stop_asked.set()
        self._stop_timeout_seconds = stop_timeout_seconds
        self._ended = threading.Event()
        self._asking = threading.RLock()  # a signal may ask within a question
        self._error: BaseException | None = None
        self._left_behind: TidegateError | None = None
        self._watcher = threading.Thread(target=self._watch, name="tidegate-job", daemon=True)
        self._clock = threading.Thread(target=self._keep_time, name="tidegate-clock", daemon=True)

    def start(self, at_end: Callable[[], None]) -> None:
        """Recover every query, start every query, and watch over them. `at_end` releases what the job holds, as soon as
        it has ended, or here when it does not start.

        Raises what stands against it. Where somebody has meanwhile asked for the end, and all that is wrong is a sink
        that does not take a decided epoch yet, the job has ended as it was asked to: that is left for `wait` to say.
        """
        self._at_end = at_end
        try:
            self._watcher.start()  # now: when the queries run nothing may fail that leaves them to nobody
            self._clock.start()
            for companion in self._companions:
                companion.opening(self)
            self._start()
            self._may_watch.set()
        except BaseException as error:
            if self._may_watch.is_set():  # an interrupt behind the start: somebody watches
                raise
            self._note(error)
            self.last_savepoint.pass_by(error)
            self._give_up_the_start()
            if not (self._asked and is_of_a_sink(error)):
                raise

    def _give_up_the_start(self) -> None:
        for step in (partial(self._tell_the_end, _log_beside), self._release):
            try:
                step()
            except BaseException as beside:  # noqa: BLE001 (the start's own error is raised)
                _log_beside(beside)
        self._ended.set()
        self._may_watch.set()

    def _start(self) -> None:
        for run in self.runs:
            run.open()
        try:
            for run in [] if self._draining.goes_on else self.runs:
                self._start_run(run)
            for companion in self._companions:
                companion.started(self)
        except BaseException as error:  # noqa: BLE001 (raised when every run has ended)
            self._end_all(self.runs, [error])

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait until the job has ended; raises what made it fail. False when `timeout_seconds` passed first.

        Ctrl-C meanwhile (in a notebook: an interrupt of this cell) stops the job cleanly, and it has ended then. A
        second one is raised.
        """
        with main_thread_waits():
            try:
                ended = self._ended.wait(timeout_seconds)
            except KeyboardInterrupt:
                if self._asked:
                    raise
                self.ask_to_stop()
                ended = self._ended.wait()
        if ended and self._error is not None:
            raise self._error
        return ended

    def await_end(self, timeout_seconds: float | None = None) -> bool:
        """As `wait`, without an error that says how it ended."""
        return self._ended.wait(timeout_seconds)

    def stop(self, timeout_seconds: float | None = None, *, drain: bool = False) -> None:
        """End with the epoch that is under way done, and block until then; what is undecided comes again.

        With `drain` for good: every window and every event-time timer comes out as at the end of time, and no start
        goes on from there. Rows that have not been read by now stay in the source. TG-JOB-NOT-DRAINED tells that the
        job has ended otherwise, by itself or by a cancel.

        When a sink does not take a decided epoch within `timeout_seconds` (else the setting `stop_timeout`), the job
        ends with TG-SINK-UNAVAILABLE, and the next start commits it.
        """
        (self.ask_to_drain if drain else self.ask_to_stop)(timeout_seconds)
        self.wait()
        if drain and not self.is_drained:
            raise self.not_drained()

    def cancel(self) -> None:
        """End at once, and block until then. What is undecided is aborted, and its input comes again.

        What is decided and no sink takes right now is left to the next start: that is no error of a cancel. With
        checkpointing.retention=delete the job's checkpoints go, unless it has failed or has left something so.
        """
        self.ask_to_cancel()
        self.wait()

    def stop_with_savepoint(
        self,
        folder: str | Path | None = None,
        *,
        id: str | None = None,
        format: Literal["native", "canonical"] = "native",
        timeout_seconds: float | None = None,
        drain: bool = False,
    ) -> Path:
        """As `stop`, with a savepoint of the last epoch, taken when every query has ended; its folder. It is waited
        for without a limit, unless somebody asks for the end of the job once more. `format`: see `savepoint`. With
        `drain` it shows what the job has ended with for good: it can be read, and no job goes on from it.

        What is known to stand against it is raised before anything is stopped. Later it is what made the job fail,
        SINK_UNAVAILABLE for a decided epoch that waits for its sink, or what the disk had to say: the job has ended,
        and `tidegate stop -p` takes what savepoint is missing.
        """
        ending = Ending.DRAIN if drain else Ending.STOP
        return self._end_with(ending, _named(id), folder, _form(format), timeout_seconds)

    def cancel_with_savepoint(
        self,
        folder: str | Path | None = None,
        *,
        id: str | None = None,
        format: Literal["native", "canonical"] = "native",
    ) -> Path:
        """As `cancel`, with a savepoint of the newest done epoch, taken when every query has ended; its folder. Raises
        as `stop_with_savepoint`."""
        return self._end_with(Ending.CANCEL, _named(id), folder, _form(format))

    def _end_with(
        self,
        ending: Ending,
        id: str,
        folder: str | Path | None,
        form: SavepointFormat,
        timeout_seconds: float | None = None,
    ) -> Path:
        self.savepoints().look_at(id, None if folder is None else str(folder), form).result()
        self.ask_to_end_with_savepoint(ending, id, folder, form, timeout_seconds)
        self.wait()
        if self.last_savepoint.error is not None:
            raise self.last_savepoint.error
        if self.last_savepoint.savepoint is None:
            raise no_last_savepoint(self.name, "the job has ended by itself")
        return self.last_savepoint.savepoint.folder

    def checkpoint(self, timeout_seconds: float | None = None) -> dict[str, int] | None:
        """Wait until everything is done that the job has read by now; the newest done epoch of each query.

        None when `timeout_seconds` passed, or the job ended, before. Raises what made the job fail.
        """
        targets = self.under_way()
        end = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while not self.has_done(targets):
            if self.wait(_LOOK_SECONDS) or (end is not None and time.monotonic() >= end):
                return self.finished() if self.has_done(targets) else None
        return self.finished()

    def savepoint(
        self,
        folder: str | Path | None = None,
        *,
        id: str | None = None,
        format: Literal["native", "canonical"] = "native",
        timeout_seconds: float | None = None,
    ) -> Path | None:
        """Take a savepoint of everything that the job has read by now; its folder, a new one below `folder` (else
        `savepoints.dir`). The job goes on meanwhile. A savepoint of the same `id` is taken once. `format`: Spark's own
        files as they are, or state as Parquet, which anyone reads and any backend takes.

        None when the epochs under way were not done within `timeout_seconds`; it is copied without a limit. Raises
        REQUEST_REFUSED when the job has ended before, SAVEPOINT_CUT_OFF when it ends meanwhile: it waits for none.
        """
        savepoints, form = self.savepoints(), _form(format)
        named, into = _named(id), None if folder is None else str(folder)
        savepoints.check(named, into, form)
        if self.checkpoint(timeout_seconds) is None and not self._ended.is_set():
            return None
        return savepoints.begin(named, into, form).result().folder

    def savepoints(self) -> Savepoints:
        """What takes the job's savepoints. Raises SAVEPOINT_REFUSED where the job can have none."""
        if self._savepoints is None:
            raise not_of_this_job(self.name)
        return self._savepoints

    def ask_to_stop(self, timeout_seconds: float | None = None) -> None:
        """As `stop`, without waiting."""
        self._end_by(Ending.STOP, self._stop_timeout_seconds if timeout_seconds is None else timeout_seconds)

    def ask_to_drain(self, timeout_seconds: float | None = None) -> None:
        """As `stop` with `drain`, without waiting."""
        self._end_by(Ending.DRAIN, self._stop_timeout_seconds if timeout_seconds is None else timeout_seconds)

    def ask_to_cancel(self) -> None:
        """As `cancel`, without waiting."""
        self._end_by(Ending.CANCEL, 0.0)

    def ask_to_end_with_savepoint(
        self,
        ending: Ending,
        id: str,
        folder: str | Path | None,
        form: SavepointFormat = SavepointFormat.NATIVE,
        timeout_seconds: float | None = None,
    ) -> None:
        """As `stop_with_savepoint` and `cancel_with_savepoint`, without waiting, and without a look at the folder.
        Raises where nothing was asked of the job: it has no savepoints, is being drained and shall not be, or is ending
        already."""
        drained = ending is Ending.DRAIN
        with self._asking:
            if self._ending is Ending.DRAIN and not drained:
                raise no_last_savepoint(self.name, "the job is being drained: nothing goes on from its end")
            into = None if folder is None else str(folder)
            self.last_savepoint.ask(self.savepoints(), id, into, form, drained=drained)
            default = 0.0 if ending is Ending.CANCEL else self._stop_timeout_seconds
            self._end_by(ending, default if timeout_seconds is None else timeout_seconds, with_savepoint=True)

    def under_way(self) -> dict[str, int]:
        """By query, the epoch that is under way, or the newest done one where none is."""
        return {uid: max(figures.epoch, figures.finished, 0) for uid, figures in self._figures.items()}

    def has_done(self, epochs: Mapping[str, int]) -> bool:
        """Whether all these epochs, by query, are done."""
        return all(self._figures[uid].finished >= epoch for uid, epoch in epochs.items())

    def finished(self) -> dict[str, int]:
        """By query, the newest epoch that is done; -1 where none is."""
        return {uid: figures.finished for uid, figures in self._figures.items()}

    def last_epoch_ms(self, uid: str) -> float | None:
        """How long the newest done epoch of a query took, from Spark's choice of its input on."""
        return next(reversed(self._figures[uid].epoch_ms), None)

    def epoch_seconds(self) -> float:
        """How long the epochs under way may take until they have ended; 0 where none is."""
        return max((run.epoch_seconds for run in list(self.runs)), default=0.0)

    def failed_place(self) -> dict[str, Any]:
        """Which run of which query has ended last with an error, and at which epoch; nothing where none has."""
        return {} if self._failed is None else self._failed.place()

    def folder_of(self, uid: str) -> Path:
        """Where the ledger and Spark's log of a query are."""
        return self._folders[uid]

    @property
    def left_behind(self) -> TidegateError | None:
        """Which decided epoch a cancel has left to the next start, if it has."""
        return self._left_behind or next((run.left_behind for run in self.runs if run.left_behind is not None), None)

    @property
    def is_drained(self) -> bool:
        """Whether the job has been drained, to its end."""
        return self._draining.is_done

    def not_drained(self) -> TidegateError:
        """What to say to whoever has asked for a drain, when the job has ended well without one."""
        return not_drained(f"job {self.name}", self.end_state(None).value, stands=self._draining.stands)

    @property
    def leaves_a_drain(self) -> bool:
        """Whether the job has failed in a drain with which its next start goes on."""
        return leaves_a_drain(self._ending, self._error, asked=self._asked, stands=self._draining.stands)

    @property
    def has_given_up_its_checkpoints(self) -> bool:
        """Whether the job was canceled, and nothing is left that a next start would have to finish."""
        return gives_up_its_checkpoints(self._ending, self._error or self.last_savepoint.error, self._left)

    def _left(self) -> Left:
        if self.left_behind is not None:
            return Left.EPOCH
        return Left.THREAD if self.may_still_write() else Left.NOTHING

    @property
    def was_asked_to_end(self) -> bool:
        """Whether somebody has stopped or canceled the job, in whatever way it then ended."""
        return self._ending is not Ending.NONE

    @property
    def a_stop_takes_a_savepoint(self) -> bool:
        """Whether whoever stops the job with the command ends it with a savepoint unasked: the job has a folder for
        them, and nobody has asked for its end before."""
        return self._savepoints is not None and self._ending is Ending.NONE and self._savepoints.are_taken_unasked()

    def end_state(self, error: BaseException | None) -> JobState:
        """What a job that has ended with this error, or none, is called."""
        caught_up = self._bounded and self._draining.goes_on
        was_wanted = wanted(self._ending, asked=self._asked, catches_up_with_a_drain=caught_up)
        return STATE.cell(was_wanted, self.wrong(error))

    def wrong(self, error: BaseException | None) -> Wrong:
        """What kind of thing was wrong with a job that has ended with this error, or none."""
        return wrong_of(error, is_the_last_savepoint=self.last_savepoint.is_all_that_failed)

    def error(self) -> BaseException | None:
        """What made the job fail; None while it runs, or when it ended well."""
        return self._error

    def status(self) -> JobStatus:
        """How the job is now."""
        behind = {run.plan.query.uid: run.behind() for run in list(self.runs)}
        queries = tuple(status_of(uid, figures, behind.get(uid)) for uid, figures in self._figures.items())
        return JobStatus(name=self.name, running=not self._ended.is_set(), queries=queries)

    def _end_by(self, ending: Ending, timeout_seconds: float, *, with_savepoint: bool = False) -> None:
        with self._asking:
            if self._ended.is_set():  # by itself: nobody has ended it
                return
            asked_before, self._asked = self._asked, True
            if asked_before and not with_savepoint:
                why = f"somebody asked for the job's end once more ({ending.value})"
                self.last_savepoint.limit(why, timeout_seconds)
            self._ending = max(self._ending, ending, key=list(Ending).index)
            self._stop_timeout_seconds = (
                min(self._stop_timeout_seconds, timeout_seconds) if asked_before else timeout_seconds
            )
            self._stop_asked.set()
        for run in list(self.runs):
            self._hurry(run, timeout_seconds)

    def _run_of(self, plan: QueryPlan) -> QueryRun:
        return QueryRun(plan, self._session, self._figures[plan.query.uid], self._tell)

    def _tell(self, query: str, run: int, happening: Happening) -> None:
        for companion in self._companions:
            companion.happened(query, run, happening)

    def _watch(self) -> None:
        self._may_watch.wait()
        if self._ended.is_set():  # the start has failed
            return
        tell = partial(self._tell_the_end, self._note)
        for step in (self._watch_runs, self._drain, self._take_the_last, tell, self._release):
            try:
                step()
            except BaseException as error:  # noqa: BLE001 (the first is kept, and raised by `wait`)
                self._note(error)
        self._ended.set()

    def _keep_time(self) -> None:
        """No epoch takes longer than it may because the watching thread waits for the sink of another query."""
        while not self._ended.wait(_LOOK_SECONDS):
            for run in list(self.runs):
                with suppress(Py4JError, OSError):  # a JVM that is gone: the watching thread meets it, too
                    run.keep_time()

    def _note(self, error: BaseException) -> None:
        if is_left_to_the_next_start(error, self._ending):
            self._left_behind = self._left_behind or error
        else:
            self._error = self._error or error

    def _tell_the_end(self, note: Callable[[BaseException], None]) -> None:
        """Call off the savepoints that are being taken, then tell every companion, whatever the others raise."""
        if self._savepoints is not None:
            self._savepoints.close(f"the job is {self.end_state(self._error).value}")
        for companion in self._companions:
            try:
                companion.ended(self._error)
            except BaseException as error:  # noqa: BLE001 (noted)
                note(error)

    def _release(self) -> None:
        """Give up what the job holds; not while a thread lives that can still write, or when nobody can tell."""
        try:
            held = self.may_still_write()
        except BaseException:
            keep_for_life(self._at_end)
            raise
        if held:
            keep_for_life(self._at_end)
        else:
            self._at_end()

    def may_still_write(self) -> bool:
        """Whether a thread of a query lives that nothing has ended: what the job holds stays with this process."""
        return any(run.may_still_write() for run in self.runs)

    def _watch_runs(self) -> None:
        alive = list(self.runs)
        errors: list[BaseException] = []
        try:
            while (alive or self._waiting) and not self._stop_asked.wait(_LOOK_SECONDS):
                for run in [each for each in alive if each.has_come_to_rest()]:
                    alive.remove(run)
                    if self._goes_on_after(run):
                        self._waiting.append(Waiting(run, restart_at=time.monotonic()))
                self._start_again(alive)
                self._look()
            if self._ending is Ending.DRAIN:
                self._draining.begin()
        except BaseException as error:  # noqa: BLE001 (raised when every run has ended)
            errors.append(error)
        self._end_all([*alive, *self._recovered(errors)], errors)

    def _drain(self) -> None:
        if self._ending is not Ending.DRAIN or self._error is not None:
            return
        self._draining.begin()  # asked for while the queries were stopping
        reins = Reins(self._another_run_of, self._look, lambda: self._ending is Ending.CANCEL)
        self._draining.carry_out(self.runs, reins)
        if self._draining.is_done:
            self._draining.seal(self._companions)

    def _take_the_last(self) -> None:
        if self.last_savepoint.pass_by(self._against_the_last()) and self._savepoints is not None:
            self.last_savepoint.take(self._savepoints, self._look)

    def _against_the_last(self) -> BaseException | None:
        """Why no savepoint can be taken of the job's end; None where it can."""
        if self._error is not None or self.left_behind is not None:
            return self._error or self.left_behind
        if self.may_still_write():
            return no_last_savepoint(self.name, "a query that nothing ends")
        if self.last_savepoint.is_of_a_drain:
            return None if self._draining.is_done else self.not_drained()
        if self._ending is Ending.DRAIN:
            return no_last_savepoint(self.name, "the job was drained: nothing goes on from its end")
        return None

    def _look(self) -> None:
        for companion in self._companions:
            companion.look()

    def _goes_on_after(self, run: QueryRun) -> bool:
        """Whether another run follows: for a failed epoch that is tolerated, which runs again with the same input, or
        for the due no-data epoch, which a bounded job runs before it ends. Raises what ended the run for good."""
        try:
            return run.close() and self._bounded and not self._leaves_due_epoch
        except TidegateError as error:
            if self._is_tolerated(run, error):
                return True
            self._put_off(run, error)
            return False
        except BaseException:
            self._failed = run
            raise

    def _is_tolerated(self, run: QueryRun, error: TidegateError) -> bool:
        """Whether another run follows here. Where it cannot, a supervisor starts the program again."""
        if run.failed_epoch is None:
            return False
        uid, (epoch, fault) = run.plan.query.uid, run.failed_epoch
        tolerance, here = self._tolerances[uid], run.plan.again_here
        tolerated = tolerance.failed(self._figures[uid].epochs) and (here or self._pause_after is not None)
        run.tell(EpochFailed(epoch, fault, tolerance.in_a_row, tolerated, tolerated and not here))
        self.tolerated = error if tolerated and not here else None
        return tolerated and here

    def failed_epochs(self) -> dict[str, int]:
        """By query, the failed epochs in a row."""
        return {uid: each.count(self._figures[uid].epochs) for uid, each in self._tolerances.items()}

    def _start_run(self, run: QueryRun) -> None:
        run.start(self._trigger, leaves_due_epoch=self._leaves_due_epoch)

    def _another_run_of(self, ended: QueryRun) -> QueryRun:
        run = self._run_of(ended.plan)
        self.runs[self.runs.index(ended)] = run
        if self._stop_asked.is_set():  # by a thread that may have gone through the runs before this one
            self._hurry(run, self._stop_timeout_seconds)
        return run

    def _hurry(self, run: QueryRun, timeout_seconds: float) -> None:
        if self._ending is Ending.CANCEL:
            run.cancel()
        elif self._draining.is_under_way:
            run.allow_waiting(timeout_seconds)
        else:
            run.limit_waiting(timeout_seconds)

    # --- another run of a query, in a session that lives ----------------------------------------------------

    def _put_off(self, run: QueryRun, error: TidegateError) -> None:
        """Have the query wait for its next run, or raise the error when there is to be none."""
        self._failed = run
        may_go_on = run.plan.again_here and not run.may_still_write() and lives(self._session)
        trusted = error.catalogue_entry not in ENDS_THE_DRIVER and not is_of_a_failed_sync(error)
        if self._pause_after is None or not may_go_on or not trusted or self._stop_asked.is_set():
            raise error
        pause = self._pause_after(run, error)
        if pause is None:
            raise error
        self._waiting.append(Waiting(run, time.monotonic() + pause))

    def _start_again(self, alive: list[QueryRun]) -> None:
        """New runs of the queries whose pause is over, each among the living as soon as it is started: the next one may
        end the job. One that fails in its recovery or its start waits again."""
        for each in [each for each in self._waiting if time.monotonic() >= each.restart_at]:
            self._waiting.remove(each)
            run = self._another_run_of(each.ended)
            try:
                run.open()
                self._start_run(run)
            except BaseException as error:  # noqa: BLE001 (raised, or put off, when the run has ended)
                self._end_failed_start(run, error)
            else:
                alive.append(run)

    def _end_failed_start(self, run: QueryRun, error: BaseException) -> None:
        try:
            self._end_all([run], [error])
        except TidegateError as first:
            self._put_off(run, first)

    def _recovered(self, errors: list[BaseException]) -> list[QueryRun]:
        """Runs, not started, of the queries that wait when the job is stopped: what is decided of them is finished."""
        recovered: list[QueryRun] = []
        for each in [] if errors else self._waiting:
            run = self._another_run_of(each.ended)
            try:
                run.open()
            except BaseException as error:  # noqa: BLE001 (raised when every run has ended)
                self._failed = run
                errors.append(error)
            else:
                recovered.append(run)
        return recovered

    def _end_all(self, runs: Sequence[QueryRun], errors: list[BaseException]) -> None:
        """Stop all, then close all. When every run has ended the first error is raised, of `errors` or from here; that
        of a sink which is not ready yields to any other."""
        for end in [*(partial(run.stop, self._stop_timeout_seconds) for run in runs), *(run.close for run in runs)]:
            try:
                end()
            except BaseException as error:  # noqa: BLE001 (the first is raised below)
                errors.append(error)
        if errors:
            raise next((error for error in errors if not is_of_a_sink(error)), errors[0])


def _log_beside(error: BaseException) -> None:
    """What went wrong beside the error that is raised."""
    _LOG.error("beside what ended the start: %s", error, exc_info=error)


def trigger_of(bounded: bool, interval_seconds: float) -> dict[str, Any]:
    """Spark's trigger for a job that ends when it has caught up, or for one with this interval (0: no pause)."""
    return {"availableNow": True} if bounded else {"processingTime": f"{int(interval_seconds * 1000)} milliseconds"}


def _form(text: str) -> SavepointFormat:
    known = {form.value: form for form in SavepointFormat}
    if text not in known:
        raise TidegateError(
            Code.REQUEST_REFUSED,
            expected=f"the format of a savepoint: {' or '.join(known)}",
            found=repr(text),
            where="format=",
            next_step="name one of them",
        )
    return known[text]


def _named(savepoint_id: str | None) -> str:
    return secrets.token_hex(4) if savepoint_id is None else savepoint_id


def _nothing() -> None:
    return None
