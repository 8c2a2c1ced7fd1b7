"""Keeps one job alive: starts its driver, follows its progress, and restarts it after a failure.

`cures` decides whether a restart can help, and `restart` decides the pause; this module handles the processes. If the
supervisor is killed, the driver ends within seconds. If the driver makes no progress, the supervisor kills it.
"""

from __future__ import annotations

import math
import select
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import IO

import msgspec

from tidegate.core.errors import Code, TidegateError
from tidegate.core.telling import parts_of
from tidegate.operate.beat import Beat
from tidegate.operate.control import Kind
from tidegate.operate.failures import Failure, add_failure, failure_of
from tidegate.operate.reports import FailureReport, code_of, driver_died, driver_stalled, ended_by, report_of
from tidegate.operate.supervisor_lock import SupervisorLock, take_supervisor_lock
from tidegate.settings.config import Settings
from tidegate.storages.schemes import Folder
from tidegate.supervise.child import DriverProcess
from tidegate.supervise.head_start import HeadStart
from tidegate.supervise.job_folder import BeatOfJob, find_again
from tidegate.supervise.line import (
    CannotTakeOver,
    Finished,
    GoOn,
    Moved,
    QueryFailed,
    Ready,
    Refused,
    RestartQuery,
    Running,
    StartAnnounced,
    Stop,
)
from tidegate.supervise.news import News
from tidegate.supervise.outcomes import Fault, JobEnd, JobOutcome, Stopped, answer_of, fault_of, outcome_of
from tidegate.supervise.porter import Porter
from tidegate.supervise.progress import ProgressWatch
from tidegate.supervise.restart import strategy_of
from tidegate.supervise.restart_history import RestartHistory
from tidegate.supervise.signals import Signals
from tidegate.supervise.standby import STANDBY, Standby, is_time


class Supervisor:
    """One `tidegate run`. `settings` apply until the program has sent its own."""

    def __init__(
        self,
        program: Sequence[str],
        settings: Settings,
        *,
        environment: Mapping[str, str],
        news: News,
        output: IO[bytes] | None = None,
        signals: Signals | None = None,
    ) -> None:
        """`signals`: already open, and still open after `run`; without it `run` opens its own."""
        self._program = program
        self._environment = environment
        self._news = news
        self._output = output
        self._signals: AbstractContextManager[Signals] = Signals() if signals is None else nullcontext(signals)
        self._restarts = RestartHistory(strategy_of(settings))
        self._progress_timeout = settings.progress_timeout
        self._stop_timeout = settings.stop_timeout
        self._standby = Standby(self._start_standby, news, time.monotonic)
        self._head_start = HeadStart(self._start_driver)
        self._failed_epochs: dict[str, int] = {}
        self._job: str | None = None
        self._folder: Folder | None = None
        self._beats: BeatOfJob | None = None
        self._lock: SupervisorLock | None = None
        self._porter: Porter | None = None
        self._resumes = ""
        """The id of the job, from the first driver on that has begun it."""
        self._looks_for_folder = False
        self._step: str | None = None
        self._runs_since: float | None = None
        self._is_old: str | None = None
        self._over_since = 0.0
        self._exit_by = math.inf
        self._refused: tuple[FailureReport, Failure] | None = None
        self._stop_by: float | None = None
        self._stopped_late = False
        self._at_once = False

    def run(self) -> JobEnd:
        """Keep the job alive until it ends for good."""
        try:
            with self._signals as signals:
                ending = None
                while ending is None:
                    last = self._drive(signals)
                    ending = None if last is None else self._after(last)
                    if ending is None and not self._rest(signals):
                        ending = self._ending(JobOutcome.STOPPED)
                if self._porter is not None:
                    self._porter.answer(*answer_of(ending))
                return ending
        finally:
            self._head_start.end()
            self._standby.close(0.0 if self._at_once else None)
            if self._lock is not None:
                self._lock.release()

    # --- one driver ----------------------------------------------------------------------------------------

    def _drive(self, signals: Signals) -> Finished | None:
        """Start a driver, or let the standby take over, and follow it until all its processes are gone.

        Returns its last message, or a substitute. None: it was a standby that could not take over, which is no failure.
        """
        child = self._standby.take() or self._head_start.take()
        watch = ProgressWatch(self._progress_timeout, time.monotonic())
        last: Finished | None = None
        stalled = False
        self._refused, self._step, self._looks_for_folder = None, None, bool(self._resumes)
        self._runs_since, self._is_old = None, None
        self._exit_by = math.inf
        try:
            while not child.has_ended() and not child.cannot_be_killed():
                self._await(signals, child)
                last = self._listen(child, watch) or last
                over = last is not None or child.has_ended()
                beat = None if self._beats is None else self._beats.of(child.process)
                self._obey(signals, None if over else child)
                if beat is None and not over:
                    self._serve(child)
                self._look_at_standby(beat)
                if self._is_late() or self._at_once or self._is_old is not None:
                    child.kill()
                elif not stalled and watch.look(beat, time.monotonic()):
                    stalled = True
                    child.kill()
            last = self._listen(child, watch) or last
        except BaseException:
            child.close_at_once()
            raise
        self._over_since = time.monotonic()
        if last is None and self._stop_by is None and not self._at_once:
            self._look_at_head_start(0.0)  # while the JVM of the dead driver ends
        beat = None if self._beats is None else self._beats.last_of(child.process)
        stays = child.close_at_once() if self._at_once else child.close()
        if stays:
            self._news.stays(stays)
        if self._is_old is not None:
            self._news.standby_lost(f"the standby cannot take over; the program is started anew: {self._is_old}")
            return None
        if last is not None:
            return last
        error = (
            driver_stalled(self._where(), watch.allowed_seconds, self._step)
            if stalled
            else driver_died(self._where(), ended_by(child.returned))
        )
        return Finished(report=_placed(report_of(error), beat), job_ended=beat is not None and beat.state.is_an_end)

    def _listen(self, child: DriverProcess, watch: ProgressWatch) -> Finished | None:
        last = None
        for message in child.said():
            watch.heard()
            match message:
                case StartAnnounced():
                    child.tell(self._declared(message))
                    watch.timeout_seconds = self._progress_timeout
                case Moved(step):
                    self._step = step
                case Running(job_id):
                    watch.runs()
                    self._restarts.has_run()
                    self._step, self._runs_since = None, time.time()
                    self._resumes = self._resumes or job_id
                    self._news.running()
                case QueryFailed(report):
                    answer = self._query_failed(report)
                    watch.rests(answer.pause or 0.0)
                    child.tell(answer)
                case Finished(report=report):
                    last = message
                    if report is not None:
                        self._exit_by = time.monotonic() + _EXIT_SECONDS
                case CannotTakeOver(why):
                    self._is_old = why
                case Ready():  # it was told to take over before it was ready
                    pass
        return last

    def _declared(self, message: StartAnnounced) -> GoOn | Refused:
        self._restarts.strategy = message.strategy
        self._progress_timeout = message.progress_timeout
        self._stop_timeout = message.stop_timeout
        self._head_start.declared(Folder.of(message.folder), own_jvm=message.own_jvm)
        self._standby.wanted, self._standby.progress_timeout = message.standby, message.progress_timeout
        folder = Folder.of(message.folder)
        try:
            if self._looks_for_folder:
                find_again(folder)
                self._looks_for_folder = False
            if self._lock is None:
                self._lock = take_supervisor_lock(folder, message.job)
                self._porter = Porter(folder, self._lock.holder.incarnation)
        except TidegateError as error:
            return Refused(parts_of(error))
        if self._job is None:
            self._job, self._folder = message.job, folder
            self._news.declared(message.job, folder, message.warm_up)
        self._beats = self._beats or BeatOfJob(folder)
        self._beats.begin()
        return GoOn(self._failed_epochs, self._resumes)

    # --- the next driver ---------------------------------------------------------------------------------------

    def _start_driver(self, variables: Mapping[str, str]) -> DriverProcess:
        return DriverProcess(self._program, {**self._environment, **variables}, self._output)

    def _start_standby(self) -> DriverProcess:
        return self._start_driver({STANDBY: "1"})

    def _look_at_head_start(self, seconds_left: float) -> None:
        """A standby that waits has more than a head start."""
        if self._standby.waits_for is None:
            self._head_start.look(seconds_left)

    def _look_at_standby(self, beat: Beat | None) -> None:
        """`beat`: the newest beat of the driver; None if there is none, or no driver."""
        if self._stop_by is not None or self._at_once:
            self._standby.end()
        self._standby.look(may_start=is_time(beat, self._runs_since, time.time()))

    def _await(self, signals: Signals, driver: DriverProcess | None, seconds: float | None = None) -> None:
        """Wait for a signal, or a message of the driver or the standby; a second at most."""
        lines = [each.line for each in (driver, self._standby.waits_for) if each is not None and not each.line.ended]
        select.select([signals, *lines], [], [], _LOOK_SECONDS if seconds is None else min(seconds, _LOOK_SECONDS))

    # --- ending --------------------------------------------------------------------------------------------

    def _obey(self, signals: Signals, running: DriverProcess | None) -> None:
        """The first signal stops the job cleanly; a later interrupt ends it at once. `running`: None if no driver runs
        that a signal could stop, so the signal did not cause its end."""
        for each in signals.arrived():
            if self._stop_by is None:
                self._stop(running, within_seconds=self._stop_timeout + _STOP_MARGIN_SECONDS)
            elif each is signal.SIGINT:
                self._at_once = True

    def _serve(self, child: DriverProcess | None) -> None:
        """Execute the request of a command that found no driver at its desk. A driver that is still starting receives
        it like a signal. A cancel interrupts a stop."""
        kind = None if self._porter is None else self._porter.asked()
        if kind is not None and self._stop_by is None:
            within = _CANCEL_SECONDS if kind is Kind.CANCEL else self._stop_timeout + _STOP_MARGIN_SECONDS
            self._stop(child, within_seconds=within)
        elif kind is Kind.CANCEL and self._stop_by is not None:
            self._stop_by = min(self._stop_by, time.monotonic() + _CANCEL_SECONDS)

    def _stop(self, running: DriverProcess | None, *, within_seconds: float) -> None:
        self._stop_by = time.monotonic() + within_seconds
        self._stopped_late = running is None
        self._news.stopping()
        if running is not None:
            running.tell(Stop())

    def _is_late(self) -> bool:
        """True if a stop takes too long, or the exit of a driver that has reported its failure."""
        return time.monotonic() > min(self._exit_by, math.inf if self._stop_by is None else self._stop_by)

    def _rest(self, signals: Signals) -> bool:
        """Wait for the pause before the next start. Returns False if a stop was requested."""
        while True:
            self._obey(signals, None)
            self._serve(None)
            self._look_at_standby(None)
            left = self._restarts.next_start - time.monotonic()
            if self._stop_by is not None or left <= 0:
                return self._stop_by is None
            self._look_at_head_start(left)
            self._await(signals, None, left)

    # --- failures ------------------------------------------------------------------------------------------

    def _after(self, last: Finished) -> JobEnd | None:
        """The final end of the job; None if the driver is to be restarted."""
        if self._at_once:
            return self._ending(JobOutcome.INTERRUPTED)
        if last.report is None:
            # if a job had started, only its driver knows whether a stop came before the job's own end
            stopped = last.asked if last.job_ended else self._stop_by is not None
            return self._ending(outcome_of(Fault.NONE, Stopped.of(stopped)), code=last.code)
        self._failed_epochs = last.failed_epochs
        refused = self._refused
        if refused is not None and refused[0] == last.report:
            failure = refused[1]  # the failure of a query without a restart: it was reported already
        else:
            failure = self._failed(last.report, self._news.failed, since=self._over_since, last=last)
        if failure.restart_in_seconds is not None:
            return None
        fault = fault_of(_codes_of(last.report))
        return self._ending(outcome_of(fault, Stopped.of(last.job_ended or self._stop_by is not None)), failure=failure)

    def _query_failed(self, report: FailureReport) -> RestartQuery:
        failure = self._failed(report, self._news.query_failed, since=time.monotonic())
        if failure.restart_in_seconds is None:
            self._refused = (report, failure)
        return RestartQuery(failure.restart_in_seconds)

    def _failed(
        self, report: FailureReport, tell: Callable[[Failure], None], *, since: float, last: Finished | None = None
    ) -> Failure:
        """Decide on a restart, and store the failure in the history. `last`: the driver's last message, if the driver
        has ended.

        A tolerated failed epoch is no failure for the restart strategy. The pause counts from `since`, the time of the
        driver's end: the end of its JVM is part of the pause.
        """
        final = last is not None and last.job_ended
        stopped = self._stop_by is not None and not self._stopped_late
        pause = None
        if not final and not stopped:
            tolerated = last is not None and bool(last.failed_epochs)
            pause_after = self._restarts.pause_of_tolerated if tolerated else self._restarts.pause_of_failed
            pause = pause_after(_codes_of(report), since)
        failure = failure_of(report, at=time.time(), restart_in_seconds=pause)
        tell(failure)
        if self._folder is not None:
            try:
                if self._resumes and not final:  # a job that has ended may have removed its folder
                    find_again(self._folder)
                add_failure(self._folder, failure)
            except TidegateError as error:
                self._news.history_failed(error)
        return failure

    def _ending(self, outcome: JobOutcome, *, code: int = 0, failure: Failure | None = None) -> JobEnd:
        return JobEnd(outcome=outcome, job=self._job, restarts=self._restarts.count, code=code, failure=failure)

    def _where(self) -> str:
        return f"job {self._job}" if self._job is not None else f"program {self._program[0]}"


_LOOK_SECONDS = 1.0
_STOP_MARGIN_SECONDS = 30.0
"""Time of a stop beyond `stop_timeout`, which counts only the wait for sinks."""

_EXIT_SECONDS = 30.0
"""Time limit for the exit of a driver after it has reported the failure of its program.

Python waits without limit for threads that are no daemons: a thread of the program, or one that hangs in a sink or on a
disk.
"""

_CANCEL_SECONDS = 10.0
"""Time limit for the end of a canceled driver that has not begun recovery."""


def _codes_of(report: FailureReport) -> list[Code]:
    return [code_of(label) for label in report.codes]


def _placed(report: FailureReport, beat: Beat | None) -> FailureReport:
    """Add the query to a report, if the job has one, and the epoch that was under way. The last beat shows the driver's
    state when it died.
    """
    if beat is None or len(beat.queries) != 1:
        return report
    (query,) = beat.queries
    return msgspec.structs.replace(
        report, query=query.uid, epoch=query.epoch if query.epoch > query.finished else None, run=query.run
    )
