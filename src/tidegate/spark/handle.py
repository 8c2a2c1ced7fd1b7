"""A started job: wait for it, stop it, ask how it is."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from tidegate.core.effects import Happening
from tidegate.core.errors import TidegateError
from tidegate.core.happenings import EpochFailed, RowsGivenUp, TransactionRedone
from tidegate.core.tolerance import Tolerance
from tidegate.spark.companions import Companion
from tidegate.spark.query_run import Figures, QueryPlan, QueryRun

_LOG = logging.getLogger("tidegate")
_LOOK_SECONDS = 0.05
_STOP_TIMEOUT_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStatus:
    """How one query is. Epochs are -1 when there was none; times are medians of this process's epochs.

    `rows` are those that became visible, in all sinks; `given_up` those that an at-most-once sink will never show.
    """

    uid: str
    epoch: int
    finished: int
    epochs: int
    rows: int
    given_up: int
    aborted: int
    redone: int
    epoch_ms: float | None
    commit_delay_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """How a job is, by query in the order of the program."""

    name: str
    running: bool
    queries: tuple[QueryStatus, ...]


class JobHandle:
    """Queries side by side; when one fails the others end cleanly and the job fails with its error."""

    def __init__(
        self,
        *,
        name: str,
        session: SparkSession,
        plans: Sequence[QueryPlan],
        interval_seconds: float,
        bounded: bool,
        tolerable_failures: int = 0,
        runs_due_epoch: bool = True,
        companions: Sequence[Companion] = (),
    ) -> None:
        self.name = name
        self._companions = (Log(), *companions)
        self._session = session
        self._trigger = trigger_of(bounded, interval_seconds)
        self._bounded = bounded
        self._leaves_due_epoch = bounded and not runs_due_epoch
        self._figures = {plan.query.uid: Figures() for plan in plans}
        self._tolerances = {plan.query.uid: Tolerance(tolerable_failures) for plan in plans}
        self.runs = [self._run_of(plan) for plan in plans]
        self._at_end: Callable[[], None] = _nothing
        self._stop_asked = threading.Event()
        self._cancel_asked = False
        self._after_cancel: Callable[[], None] = _nothing
        self._stop_timeout_seconds = _STOP_TIMEOUT_SECONDS
        self._ended = threading.Event()
        self._error: BaseException | None = None
        self._watcher = threading.Thread(target=self._watch, name="tidegate-job", daemon=True)

    def start(self) -> None:
        """Recover every query, then start every query."""
        for run in self.runs:
            run.open()
        try:
            for run in self.runs:
                self._start(run)
        except BaseException as error:  # noqa: BLE001 (raised when every run has ended)
            self._end_all(self.runs, [error])

    def watch(self, at_end: Callable[[], None], after_cancel: Callable[[], None]) -> None:
        """Watch over the started queries; `at_end` releases what the job holds, after `after_cancel` where the job was
        cancelled and has not failed."""
        self._at_end = at_end
        self._after_cancel = after_cancel
        for companion in self._companions:
            companion.started(self)
        self._watcher.start()

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait until the job has ended; raises what made it fail. False when `timeout_seconds` passed first."""
        if not self._ended.wait(timeout_seconds):
            return False
        if self._error is not None:
            raise self._error
        return True

    def stop(self, timeout_seconds: float = _STOP_TIMEOUT_SECONDS) -> None:
        """End with the epoch that is under way done, and block until then; what is undecided comes again.

        When a sink does not take a decided epoch within `timeout_seconds`, the job ends with TG-SINK-UNAVAILABLE,
        and the next start commits it.
        """
        self._stop_timeout_seconds = timeout_seconds
        self._stop_asked.set()
        for run in list(self.runs):
            run.limit_waiting(timeout_seconds)
        self.wait()

    def cancel(self) -> None:
        """End at once, and block until then: no sink is waited for, and what is undecided is aborted.

        With checkpointing.retention=delete the job's checkpoints go, unless it has failed; with retain the next start
        goes on from them.
        """
        self._cancel_asked = True
        for run in list(self.runs):
            run.cancel()
        self.stop(timeout_seconds=0)

    def status(self) -> JobStatus:
        """How the job is now."""
        queries = tuple(_status(uid, figures) for uid, figures in self._figures.items())
        return JobStatus(name=self.name, running=not self._ended.is_set(), queries=queries)

    def _run_of(self, plan: QueryPlan) -> QueryRun:
        return QueryRun(plan, self._session, self._figures[plan.query.uid], self._tell)

    def _tell(self, query: str, run: int, happening: Happening) -> None:
        for companion in self._companions:
            companion.happened(query, run, happening)

    def _watch(self) -> None:
        companions = [partial(self._tell_end, companion) for companion in self._companions]
        for step in (self._watch_runs, *companions, self._clear, self._release):
            try:
                step()
            except BaseException as error:  # noqa: BLE001 (the first is kept, and raised by `wait`)
                self._error = self._error or error
        self._ended.set()

    def _tell_end(self, companion: Companion) -> None:
        companion.ended(self._error)

    def _clear(self) -> None:
        if self._cancel_asked and self._error is None:
            self._after_cancel()

    def _release(self) -> None:
        """Give up what the job holds; not while a stream thread lives, which can still write `commits/N`."""
        if not any(run.may_still_write() for run in self.runs):
            self._at_end()

    def _watch_runs(self) -> None:
        alive = list(self.runs)
        errors: list[BaseException] = []
        try:
            while alive and not self._stop_asked.wait(_LOOK_SECONDS):
                for run in [each for each in alive if each.has_ended()]:
                    alive.remove(run)
                    if self._goes_on_after(run):
                        alive.append(self._another_run_of(run))
                        alive[-1].open()
                        self._start(alive[-1])
                for companion in self._companions:
                    companion.look()
        except BaseException as error:  # noqa: BLE001 (raised when every run has ended)
            errors.append(error)
        self._end_all(alive, errors)

    def _goes_on_after(self, run: QueryRun) -> bool:
        """Whether another run follows: for a failed epoch that is tolerated, which runs again with the same input, or
        for the due no-data epoch, which a bounded job runs before it ends. Raises what ended the run for good."""
        try:
            return run.close() and self._bounded and not self._leaves_due_epoch
        except TidegateError:
            if not self._is_tolerated(run):
                raise
            return not self._stop_asked.is_set()

    def _is_tolerated(self, run: QueryRun) -> bool:
        if run.failed_epoch is None:
            return False
        uid, (epoch, fault) = run.plan.query.uid, run.failed_epoch
        tolerance = self._tolerances[uid]
        tolerated = tolerance.failed(self._figures[uid].epochs) and run.plan.again_here
        run.tell(EpochFailed(epoch, fault, tolerance.in_a_row, tolerated))
        return tolerated

    def _start(self, run: QueryRun) -> None:
        run.start(self._trigger, leaves_due_epoch=self._leaves_due_epoch)

    def _another_run_of(self, ended: QueryRun) -> QueryRun:
        run = self._run_of(ended.plan)
        self.runs[self.runs.index(ended)] = run
        if self._stop_asked.is_set():  # by a thread that may have gone through the runs before this one
            run.limit_waiting(self._stop_timeout_seconds)
        if self._cancel_asked:
            run.cancel()
        return run

    def _end_all(self, runs: Sequence[QueryRun], errors: list[BaseException]) -> None:
        """Stop all, then close all; the first error, of `errors` or from here, is raised when every run has ended."""
        for end in [*(partial(run.stop, self._stop_timeout_seconds) for run in runs), *(run.close for run in runs)]:
            try:
                end()
            except BaseException as error:  # noqa: BLE001 (the first is raised below)
                errors.append(error)
        if errors:
            raise errors[0]


def trigger_of(bounded: bool, interval_seconds: float) -> dict[str, Any]:
    """Spark's trigger for a job that ends when it has caught up, or for one with this interval (0: no pause)."""
    return {"availableNow": True} if bounded else {"processingTime": f"{int(interval_seconds * 1000)} milliseconds"}


def _status(uid: str, figures: Figures) -> QueryStatus:
    epoch_ms, commit_delay_ms = figures.medians()
    return QueryStatus(
        uid=uid,
        epoch=figures.epoch,
        finished=figures.finished,
        epochs=figures.epochs,
        rows=figures.rows,
        given_up=figures.given_up,
        aborted=figures.aborted,
        redone=figures.redone,
        epoch_ms=epoch_ms,
        commit_delay_ms=commit_delay_ms,
    )


_SHOWN_UNASKED = (RowsGivenUp, TransactionRedone, EpochFailed)
"""What a user should see who has set up no logging: Python shows warnings by itself."""


class Log(Companion):
    """Writes every happening to Python's logging, under the name `tidegate`."""

    def happened(self, query: str, run: int, happening: Happening) -> None:
        _LOG.log(logging.WARNING if isinstance(happening, _SHOWN_UNASKED) else logging.INFO, "%s", happening)


def _nothing() -> None:
    return None
