"""Decides about the restarts of a job whose driver is inside YARN: a supervisor's part, in the driver itself.

It is the other end of the driver's line. `application_attempts.py` decides; this file reads, writes and waits.
"""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable
from dataclasses import dataclass

from tidegate.core.errors import TidegateError
from tidegate.core.telling import parts_of
from tidegate.operate.beat import write_failed_beat
from tidegate.operate.failures import Failure, add_failure
from tidegate.operate.reports import FailureReport, driver_died, report_of
from tidegate.storages.schemes import Folder
from tidegate.supervise.application_attempts import AttemptRecords, AttemptsSoFar, after, given_up
from tidegate.supervise.line import (
    Finished,
    FromDriver,
    FromSupervisor,
    GoOn,
    QueryFailed,
    Refused,
    RestartQuery,
    Running,
    StartAnnounced,
)
from tidegate.supervise.news import News
from tidegate.supervise.restart import RestartPolicy

_LOG = logging.getLogger("tidegate")


@dataclass(frozen=True, slots=True)
class Time:
    """The clock that failures are dated by, in seconds since 1970, and how to wait."""

    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep


class ApplicationAttempt:
    """One attempt of an application. `strategy` applies until the program has declared its job.

    `end_application`: make the end of this process the end of the application, so that YARN starts no other attempt.
    """

    def __init__(
        self,
        application: str,
        attempt: int,
        strategy: RestartPolicy,
        news: News,
        end_application: Callable[[], None],
        time: Time = Time(),
    ) -> None:
        self._application = application
        self._attempt = attempt
        self._strategy = strategy
        self._news = news
        self._end_application = end_application
        self._time = time
        self._answers: queue.SimpleQueue[list[FromSupervisor]] = queue.SimpleQueue()
        self._job = ""
        self._folder: Folder | None = None
        self._records: AttemptRecords | None = None
        self._number = 0
        self._known = AttemptsSoFar()

    def say(self, message: FromDriver) -> None:
        """Take a message of the driver. Its answer, if it has one, is heard next."""
        match message:
            case StartAnnounced():
                self._answers.put([self._declared(message)])
            case Running(job_id):
                self._runs(job_id)
            case QueryFailed(report):
                self._failed(report, self._news.query_failed)
                failure = self._known.failure
                self._answers.put([RestartQuery(None if failure is None else failure.restart_in_seconds)])
            case Finished():
                self._finished(message)
            case _:  # nothing waits for steps of its start
                pass

    def hear(self) -> list[FromSupervisor]:
        """Wait for the next answer. This end never goes away before the driver does."""
        return self._answers.get()

    # --- the start -----------------------------------------------------------------------------------------

    def _declared(self, message: StartAnnounced) -> GoOn | Refused:
        """Count the attempts that were killed, wait for the pause, or refuse the start."""
        self._strategy, self._job, self._folder = message.strategy, message.job, Folder.of(message.folder)
        try:
            if self._records is None:
                self._records = AttemptRecords(self._folder, self._application)
                self._number, self._known = self._records.newest()
                self._news.declared(message.job, self._folder, message.warm_up)
                self._count_killed()
        except TidegateError as error:
            return Refused(parts_of(error))
        if self._known.is_given_up and self._known.failure is not None:
            return self._refused(
                self._folder, given_up(self._known.failure, self._strategy, self._where(self._attempt))
            )
        self._wait()
        return GoOn(self._known.failed_epochs, self._known.resumes)

    def _refused(self, folder: Folder, error: TidegateError) -> Refused:
        """The last driver was killed: it has not reported that the job has failed."""
        try:
            write_failed_beat(folder, self._application, str(error), self._time.now())
        except TidegateError as beside:
            self._news.history_failed(beside)
        return Refused(parts_of(error))

    def _count_killed(self) -> None:
        """Each attempt before this one without a report was killed. Its failure is dated now: the pause begins when
        YARN has started the next one."""
        while not self._known.is_given_up and (uncounted := self._known.uncounted(self._attempt)):
            killed = uncounted[0]
            log = f"see the log of its container (yarn logs -applicationId {self._application})"
            error = driver_died(self._where(killed), "its process ended without one", log)
            self._note(
                after(self._known, self._strategy, report_of(error), self._time.now(), ended=killed), self._news.failed
            )

    def _wait(self) -> None:
        seconds = self._known.pause_at(self._time.now())
        if seconds > 0:
            _LOG.warning("%s: the start waits %.1f s (%s)", self._where(self._attempt), seconds, self._strategy)
            self._time.sleep(seconds)

    def _runs(self, job_id: str) -> None:
        self._known = self._known.running(job_id)
        self._news.running()
        if self._records is not None:
            try:
                self._records.has_run(job_id)
            except TidegateError as error:
                self._news.history_failed(error)

    # --- failures ------------------------------------------------------------------------------------------

    def _finished(self, message: Finished) -> None:
        """The program has ended. Only a failure after which a restart follows is left to YARN."""
        report = message.report
        if report is not None and not self._known.is_given_up:
            failed_epochs = message.failed_epochs
            self._failed(report, self._news.failed, ended=True, is_final=message.job_ended, failed_epochs=failed_epochs)
        if self._known.is_given_up or (report is None and message.code != 0):
            self._end_application()

    def _failed(
        self,
        report: FailureReport,
        tell: Callable[[Failure], None],
        *,
        ended: bool = False,
        is_final: bool = False,
        failed_epochs: dict[str, int] | None = None,
    ) -> None:
        """Decide, and record it. Where it cannot be recorded, the next attempt counts this one as killed."""
        if self._records is None:
            self._judge_undeclared()
        decided = after(
            self._known,
            self._strategy,
            report,
            self._time.now(),
            ended=self._attempt if ended else None,
            is_final=is_final,
            failed_epochs=failed_epochs,
        )
        try:
            self._note(decided, tell)
        except TidegateError as error:
            self._known = decided
            self._news.history_failed(error)
        if self._records is None and not self._known.is_given_up:
            self._wait()

    def _judge_undeclared(self) -> None:
        """The program has named no job, so no record is found: what is known is the number of the attempt."""
        if self._attempt > 1:
            self._known = self._known.running()
        self._count_killed()

    def _note(self, decided: AttemptsSoFar, tell: Callable[[Failure], None]) -> None:
        """Record a decision. If another attempt has recorded one meanwhile, that one is read instead."""
        if self._records is None or self._folder is None:
            self._known = decided
        elif self._records.put(self._number + 1, decided):
            self._number, self._known = self._number + 1, decided
            if decided.failure is not None:
                add_failure(self._folder, decided.failure)
        else:
            self._number, self._known = self._records.newest()
            return
        if decided.failure is not None:
            tell(decided.failure)

    def _where(self, attempt: int) -> str:
        job = f"job {self._job}, " if self._job else ""
        return f"{job}application attempt {attempt} of {self._application}"
