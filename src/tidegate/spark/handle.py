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
from tidegate.core.happenings import RowsGivenUp, TransactionRedone
from tidegate.jobs.logs import log_happening
from tidegate.spark.companions import Companion
from tidegate.spark.query_run import Figures, QueryPlan, QueryRun

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
        companions: Sequence[Companion] = (),
    ) -> None:
        self.name = name
        self._companions = (Log(name), *companions)
        self._session = session
        self._trigger = trigger_of(bounded, interval_seconds)
        self._bounded = bounded
        self._figures = {plan.query.uid: Figures() for plan in plans}
        self.runs = [self._run_of(plan) for plan in plans]
        self._at_end: Callable[[], None] = _nothing
        self._stop_asked = threading.Event()
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
                run.start(self._trigger)
        except BaseException as error:  # noqa: BLE001 (raised when every run has ended)
            self._end_all(self.runs, [error])

    def watch(self, at_end: Callable[[], None]) -> None:
        """Watch over the started queries; `at_end` releases what the job holds."""
        self._at_end = at_end
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
        try:
            self._watch_runs()
        except BaseException as error:  # noqa: BLE001 (kept, and raised by `wait`)
            self._error = error
        finally:
            try:
                for companion in self._companions:
                    companion.ended(self._error)
            finally:
                self._release()

    def _release(self) -> None:
        try:
            self._at_end()
        finally:
            self._ended.set()

    def _watch_runs(self) -> None:
        alive = list(self.runs)
        errors: list[BaseException] = []
        try:
            while alive and not self._stop_asked.wait(_LOOK_SECONDS):
                for run in [each for each in alive if each.has_ended()]:
                    alive.remove(run)
                    if run.close() and self._bounded:
                        alive.append(self._another_run_of(run.plan))
                        alive[-1].open()
                        alive[-1].start(self._trigger)
                for companion in self._companions:
                    companion.look()
        except BaseException as error:  # noqa: BLE001 (raised when every run has ended)
            errors.append(error)
        self._end_all(alive, errors)

    def _another_run_of(self, plan: QueryPlan) -> QueryRun:
        """For the due no-data epoch, which a bounded job runs before it ends."""
        run = self._run_of(plan)
        self.runs.append(run)
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


_SHOWN_UNASKED = (RowsGivenUp, TransactionRedone)
"""What a user should see who has set up no logging: Python shows warnings by itself."""


class Log(Companion):
    """Writes every happening to Python's logging, under the name `tidegate`."""

    def __init__(self, job: str) -> None:
        self._job = job

    def happened(self, query: str, run: int, happening: Happening) -> None:
        level = logging.WARNING if isinstance(happening, _SHOWN_UNASKED) else logging.INFO
        log_happening(level, happening, job=self._job, query=query, run=run or None)


def _nothing() -> None:
    return None
