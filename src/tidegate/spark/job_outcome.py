"""How a job has ended: its errors, its state, and what its end leaves to the next start.

This file only decides, by the tables of `operate/job_end`. `job_life` carries the end out.
"""

from __future__ import annotations

from tidegate.core.errors import TidegateError
from tidegate.operate.beat import JobState, Wrong
from tidegate.operate.endings import EndMode
from tidegate.operate.job_end import (
    STATE,
    Left,
    gives_up_its_checkpoints,
    is_left_to_the_next_start,
    leaves_a_drain,
    wanted,
    wanted_until_caught_up,
    wrong_of,
    wrong_of_the_last_savepoint,
)
from tidegate.spark.asked_end import AskedEnd
from tidegate.spark.draining import Draining
from tidegate.spark.job_runs import JobRuns
from tidegate.spark.last_savepoint import LastSavepoint, no_last_savepoint
from tidegate.spark.refusals import not_drained
from tidegate.spark.until import Until


class OutcomeOfJob:
    """The outcome of one job, read from its request for an end, its drain, its last savepoint and its runs."""

    def __init__(
        self,
        name: str,
        until: Until,
        asked: AskedEnd,
        draining: Draining,
        last_savepoint: LastSavepoint,
        runs: JobRuns,
    ) -> None:
        self._name = name
        self._until = until
        self._asked = asked
        self._draining = draining
        self._last_savepoint = last_savepoint
        self._runs = runs
        self._left_behind: TidegateError | None = None
        self.error: BaseException | None = None
        """The first error that the job has failed with; None while it runs, or if it ended well."""

    def note(self, error: BaseException) -> None:
        """An error has ended the job, or came at its end: the first one counts."""
        if is_left_to_the_next_start(error, self._asked.ending):
            self._left_behind = self._left_behind or error
        else:
            self.error = self.error or error

    @property
    def left_behind(self) -> TidegateError | None:
        """The error of a sink that made a cancel leave a decided epoch to the next start; None if it left none."""
        of_runs = (run.threads.left_behind for run in self._runs.now)
        return self._left_behind or next(filter(None, of_runs), None)

    def may_still_write(self) -> bool:
        """True if a thread of a query lives that cannot be stopped: this process keeps everything that the job
        holds.
        """
        return any(run.threads.may_still_write() for run in self._runs.now)

    def end_state(self, error: BaseException | None) -> JobState:
        """The state of a job that has ended with this error, or with none."""
        caught_up = self._until is Until.CAUGHT_UP and self._draining.goes_on
        found = wanted_until_caught_up if caught_up else wanted
        return STATE.cell(found(self._asked.ending, self._asked.asked_of), self.wrong(error))

    def wrong(self, error: BaseException | None) -> Wrong:
        """The cause class of a job that has ended with this error, or with none."""
        found = wrong_of_the_last_savepoint if self._last_savepoint.is_all_that_failed else wrong_of
        return found(error)

    @property
    def is_drained(self) -> bool:
        """True if the job has been drained to its end."""
        return self._draining.is_done

    def not_drained(self) -> TidegateError:
        """The answer to a request for a drain if the job has ended well without one."""
        return not_drained(f"job {self._name}", self.end_state(None).value, stands=self._draining.stands)

    @property
    def leaves_a_drain(self) -> bool:
        """True if the job failed during a drain that the next start resumes."""
        return leaves_a_drain(self._asked.ending, self._asked.asked_of, self.error, stands=self._draining.stands)

    @property
    def has_given_up_its_checkpoints(self) -> bool:
        """True if the job was canceled, and a next start would have nothing to finish."""
        return gives_up_its_checkpoints(self._asked.ending, self.error or self._last_savepoint.error, self._left)

    def against_the_last_savepoint(self) -> BaseException | None:
        """The reason why no savepoint of the job's end can be taken; None if it can."""
        if self.error is not None or self.left_behind is not None:
            return self.error or self.left_behind
        if self.may_still_write():
            return no_last_savepoint(self._name, "a query that cannot be stopped")
        if self._last_savepoint.is_of_a_drain:
            return None if self.is_drained else self.not_drained()
        if self._asked.ending is EndMode.DRAIN:
            return no_last_savepoint(self._name, "the job was drained: nothing resumes from its end")
        return None

    def _left(self) -> Left:
        if self.left_behind is not None:
            return Left.EPOCH
        return Left.THREAD if self.may_still_write() else Left.NOTHING
