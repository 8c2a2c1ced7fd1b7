"""The runs of a job's queries, side by side: started, restarted after tolerated failures, ended together.

If a query fails for good, the others end cleanly, and its error is the job's error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from tidegate.core.effects import Happening
from tidegate.core.errors import TidegateError
from tidegate.core.happenings import EpochFailed
from tidegate.core.tolerance import Tolerance
from tidegate.disk.durable import is_of_a_failed_sync
from tidegate.operate.endings import EndMode
from tidegate.operate.job_end import is_of_an_unready_sink
from tidegate.spark.asked_end import AskedEnd
from tidegate.spark.draining import Draining
from tidegate.spark.figures import JobFigures
from tidegate.spark.no_data import DueEpoch
from tidegate.spark.query_plan import QueryPlan
from tidegate.spark.query_run import QueryRun
from tidegate.spark.session import lives
from tidegate.spark.until import Until
from tidegate.supervise.cures import ENDS_THE_DRIVER

_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class WaitingQuery:
    """A query that gets another run in the same session, at a time of the monotonic clock, after any end of its last
    run.
    """

    ended: QueryRun
    restart_at: float


def time_of_restart(failed_at: float | None, ended_at: float, pause: float) -> float:
    """When the next run may begin: `pause` seconds after the failure, and not before the failed run has ended.

    All times are of the monotonic clock. `failed_at`: None if it is not known; then the pause counts from the end.
    """
    return max(ended_at, (ended_at if failed_at is None else failed_at) + pause)


PauseAfter: TypeAlias = Callable[[QueryRun, TidegateError], float | None]
"""The pause before the next run of a query that failed with this error; None: the job fails with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRules:
    """How the queries of a job are run. `tolerable_failures`: failed epochs in a row, including `failed_epochs`, the
    number of the previous driver by query. `lost_lease`: the error if this process knows that it no longer holds the
    job's lease. `abort_checkpoint`: ends the checkpoint across the queries that is under way.
    """

    until: Until
    interval_seconds: float
    runs_due_epoch: bool = True
    tolerable_failures: int = 0
    failed_epochs: Mapping[str, int] = field(default_factory=dict[str, int])
    pause_after: PauseAfter | None = None
    lost_lease: Callable[[], TidegateError | None] = lambda: None
    abort_checkpoint: Callable[[], None] = lambda: None

    @property
    def is_bounded(self) -> bool:
        """True if the job ends when it has processed the existing input."""
        return self.until is Until.CAUGHT_UP

    @property
    def due(self) -> DueEpoch:
        """A bounded job may end without the due epoch without rows."""
        return DueEpoch.LEFT if self.is_bounded and not self.runs_due_epoch else DueEpoch.RUNS

    @property
    def runs_again_when_caught_up(self) -> bool:
        """True if a bounded job runs the due epoch without rows before it ends."""
        return self.is_bounded and self.runs_due_epoch

    @property
    def trigger(self) -> dict[str, Any]:
        """Spark's trigger; an interval of 0 is no pause."""
        if self.is_bounded:
            return {"availableNow": True}
        return {"processingTime": f"{int(self.interval_seconds * 1000)} milliseconds"}


class JobRuns:
    """The current run of each query, in the order of the program. One thread of the job calls at a time, except for
    `hurry` and read-only calls.
    """

    def __init__(
        self,
        session: SparkSession,
        plans: Sequence[QueryPlan],
        rules: RunRules,
        asked: AskedEnd,
        draining: Draining,
        tell: Callable[[str, int, Happening], None],
    ) -> None:
        self._session = session
        self._rules = rules
        self._asked = asked
        self._draining = draining
        self._tell = tell
        self._waiting: list[WaitingQuery] = []
        self._behind: list[QueryRun] = []
        """In a bounded job: recovered runs that are started when the queries have ended whose channels they read."""
        self._failed: QueryRun | None = None
        self.figures = JobFigures(plan.query.uid for plan in plans)
        self._tolerances = {
            plan.query.uid: Tolerance(rules.tolerable_failures, rules.failed_epochs.get(plan.query.uid, 0))
            for plan in plans
        }
        self.tolerated: TidegateError | None = None
        """The tolerated error that ended the job: a failed epoch whose query needs a new process."""
        self.now = [self._run_of(plan) for plan in plans]

    def start(self, started: Callable[[], None]) -> None:
        """Recover every query, then start every query, unless this start resumes a drain; then call `started`. After an
        error, all runs are ended first; then it is raised.
        """
        for run in self.now:
            run.sweep()
            run.open()
        try:
            if not self._draining.goes_on:
                self._behind = [run for run in self.now if self._rules.is_bounded and run.plan.reads_from]
                for run in self._not_behind():
                    self._start_run(run)
            started()
        except BaseException as error:  # noqa: BLE001 (raised when every run has ended)
            self.end_all(self.now, [error])

    def watch(self, look: Callable[[], None]) -> None:
        """Wait until every query has ended for good, or the end of the job is requested; then end all. Calls `look`
        regularly. Raises the error that ended the job.
        """
        alive = self._not_behind()
        errors: list[BaseException] = []
        try:
            while (alive or self._waiting or self._behind) and not self._asked.await_asked(self._look_seconds()):
                for run in [each for each in alive if each.threads.has_come_to_rest()]:
                    alive.remove(run)
                    if self._goes_on_after(run):
                        self._waiting.append(WaitingQuery(run, restart_at=time.monotonic()))
                self._start_again(alive)
                self._start_behind(alive)
                look()
            if self._asked.ending is EndMode.DRAIN:
                self._draining.begin()
        except BaseException as error:  # noqa: BLE001 (raised when every run has ended)
            errors.append(error)
        self.end_all([*alive, *self._behind, *self._recovered(errors)], errors)

    def keep_time(self) -> None:
        """Cut off overdue epochs of all queries, also while the watching thread waits for the sink of another query."""
        for run in list(self.now):
            with suppress(Py4JError, OSError):  # a lost JVM: the watching thread finds it, too
                run.threads.keep_time()

    def hurry_all(self, timeout_seconds: float) -> None:
        """The end of the job is requested: no run waits longer for its sinks."""
        for run in list(self.now):
            self.hurry(run, timeout_seconds)

    def failed_place(self) -> dict[str, Any]:
        """The run and query that last ended with an error, and the epoch; None if there is none."""
        return {} if self._failed is None else self._failed.place()

    def _run_of(self, plan: QueryPlan) -> QueryRun:
        return QueryRun(plan, self._session, self.figures.of[plan.query.uid], self._tell, self._rules.lost_lease)

    def _goes_on_after(self, run: QueryRun) -> bool:
        """True if another run follows: for a tolerated failed epoch, which runs again with the same input, or for the
        due no-data epoch, which a bounded job runs before it ends. Raises the error that ended the run for good.
        """
        try:
            return run.close() and self._rules.runs_again_when_caught_up
        except TidegateError as error:
            if self._is_tolerated(run, error):
                return True
            self._put_off(run, error)
            return False
        except BaseException:
            self._failed = run
            raise

    def _is_tolerated(self, run: QueryRun, error: TidegateError) -> bool:
        """True if another run follows in this process. If it cannot, a supervisor starts the program again."""
        if run.failed_epoch is None:
            return False
        uid, (epoch, fault) = run.plan.query.uid, run.failed_epoch
        tolerance, here = self._tolerances[uid], run.plan.again_here
        tolerated = tolerance.failed(self.figures.of[uid].epochs) and (here or self._rules.pause_after is not None)
        run.tell(EpochFailed(epoch, fault, tolerance.in_a_row, tolerated, tolerated and not here))
        self.tolerated = error if tolerated and not here else None
        return tolerated and here

    def failed_epochs(self) -> dict[str, int]:
        """For each query, the number of failed epochs in a row."""
        return {uid: each.count(self.figures.of[uid].epochs) for uid, each in self._tolerances.items()}

    def _start_run(self, run: QueryRun) -> None:
        """Start a run. A bounded one ends where it finds no more rows, so no barrier may hold it: the queries whose
        channels it reads have ended, and the barriers of a later checkpoint are at their ends.
        """
        if self._rules.is_bounded and run.plan.reads_from:
            self._rules.abort_checkpoint()
        run.start(self._rules.trigger, self._rules.due)

    def another_run_of(self, ended: QueryRun) -> QueryRun:
        run = self._run_of(ended.plan)
        self.now[self.now.index(ended)] = run
        if self._asked.is_asked():  # by a thread that may have passed the runs before this one
            self.hurry(run, self._asked.timeout_seconds)
        return run

    def hurry(self, run: QueryRun, timeout_seconds: float) -> None:
        if self._asked.ending is EndMode.CANCEL:
            run.threads.cancel()
        elif self._draining.is_under_way:
            run.threads.allow_waiting(timeout_seconds)
        else:
            run.threads.limit_waiting(timeout_seconds)

    def _put_off(self, run: QueryRun, error: TidegateError) -> None:
        """Schedule the next run of the query, or raise the error if there is none."""
        self._failed = run
        may_go_on = run.plan.again_here and not run.threads.may_still_write() and lives(self._session)
        trusted = error.catalogue_entry not in ENDS_THE_DRIVER and not is_of_a_failed_sync(error)
        if self._rules.pause_after is None or not may_go_on or not trusted or self._asked.is_asked():
            raise error
        pause = self._rules.pause_after(run, error)
        if pause is None:
            raise error
        self._waiting.append(WaitingQuery(run, time_of_restart(run.failed_at, time.monotonic(), pause)))

    def _start_again(self, alive: list[QueryRun]) -> None:
        """Start new runs of the queries whose pause is over. Each counts as running as soon as it is started: the next
        one may end the job. A run that fails in its recovery or its start waits again.
        """
        for each in [each for each in self._waiting if time.monotonic() >= each.restart_at]:
            self._waiting.remove(each)
            run = self.another_run_of(each.ended)
            try:
                run.open()
                self._start_run(run)
            except BaseException as error:  # noqa: BLE001 (raised, or put off, when the run has ended)
                self._end_failed_start(run, error)
            else:
                alive.append(run)

    def _start_behind(self, alive: list[QueryRun]) -> None:
        """Start the runs whose channels are written to their end. A run that fails in its start ends the job."""
        unfinished = {run.plan.query.uid for run in [*alive, *self._behind, *(each.ended for each in self._waiting)]}
        for run in [each for each in self._behind if not each.plan.reads_from & unfinished]:
            self._behind.remove(run)
            alive.append(run)
            self._start_run(run)

    def _not_behind(self) -> list[QueryRun]:
        return [run for run in self.now if run not in self._behind]

    def _look_seconds(self) -> float:
        """Until the next look at the queries: no longer than the pause of one that waits."""
        left = (each.restart_at - time.monotonic() for each in self._waiting)
        return max(0.0, min([_LOOK_SECONDS, *left]))

    def _end_failed_start(self, run: QueryRun, error: BaseException) -> None:
        try:
            self.end_all([run], [error])
        except TidegateError as first:
            self._put_off(run, first)

    def _recovered(self, errors: list[BaseException]) -> list[QueryRun]:
        """Runs, not started, of the queries that wait when the job is stopped: their decided epochs are finished."""
        recovered: list[QueryRun] = []
        for each in [] if errors else self._waiting:
            run = self.another_run_of(each.ended)
            try:
                run.open()
            except BaseException as error:  # noqa: BLE001 (raised when every run has ended)
                self._failed = run
                errors.append(error)
            else:
                recovered.append(run)
        return recovered

    def end_all(self, runs: Sequence[QueryRun], errors: list[BaseException]) -> None:
        """Stop all, then close all. After every run has ended, the first error is raised, of `errors` or from here. The
        error of a sink that is not ready counts after any other. Without the job's lease there is no wait: nothing may
        be committed any more.
        """
        timeout = self._asked.timeout_seconds if self._rules.lost_lease() is None else 0.0
        for end in [
            *(partial(run.threads.stop, timeout) for run in runs),
            *(run.close for run in runs),
        ]:
            try:
                end()
            except BaseException as error:  # noqa: BLE001 (the first is raised below)
                errors.append(error)
        if errors:
            raise next((error for error in errors if not is_of_an_unready_sink(error)), errors[0])
