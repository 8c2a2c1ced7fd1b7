"""The interface of a job for its companions: its state, and the requests that it accepts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from tidegate.core.errors import TidegateError
from tidegate.core.records import SavepointFormat
from tidegate.operate.beat import JobState, Wrong
from tidegate.operate.endings import EndMode
from tidegate.spark.figures import JobFigures
from tidegate.spark.job_status import JobStatus
from tidegate.spark.last_savepoint import LastSavepoint
from tidegate.spark.savepointing import SavepointTaker
from tidegate.storages.schemes import Folder


class EndOfJob(Protocol):
    """How a job has ended, for its companions."""

    def end_state(self, error: BaseException | None) -> JobState:
        """The state of a job that has ended with this error, or with none."""
        ...

    def wrong(self, error: BaseException | None) -> Wrong:
        """The cause class of a job that has ended with this error, or with none."""
        ...

    def not_drained(self) -> TidegateError:
        """The answer to a request for a drain if the job has ended well without one."""
        ...

    @property
    def is_drained(self) -> bool: ...

    @property
    def left_behind(self) -> TidegateError | None:
        """The error of a sink that made a cancel leave a decided epoch to the next start; None if it left none."""
        ...

    @property
    def leaves_a_drain(self) -> bool:
        """True if the job failed during a drain that the next start resumes."""
        ...

    @property
    def has_given_up_its_checkpoints(self) -> bool: ...


class LiveJob(Protocol):
    """A job from its start to its end, for its companions. They never reach its queries' runs."""

    @property
    def name(self) -> str: ...

    def status(self) -> JobStatus:
        """The current state of the job."""
        ...

    def epoch_seconds(self) -> float:
        """Longest remaining time of the current epochs; 0 if there is none."""
        ...

    @property
    def figures(self) -> JobFigures: ...

    def folder_of(self, uid: str) -> Folder:
        """The folders of a query's ledger and of Spark's log."""
        ...

    def lost_lease(self) -> TidegateError | None:
        """The error if this process knows that it no longer holds the job's lease."""
        ...

    # --- its end -------------------------------------------------------------------------------------------

    def ask_to_stop(self, timeout_seconds: float | None = None) -> None: ...

    def ask_to_drain(self, timeout_seconds: float | None = None) -> None: ...

    def ask_to_cancel(self) -> None: ...

    def ask_to_end_with_savepoint(
        self,
        ending: EndMode,
        id: str,
        folder: str | Path | None,
        form: SavepointFormat = SavepointFormat.NATIVE,
        timeout_seconds: float | None = None,
    ) -> None: ...

    @property
    def outcome(self) -> EndOfJob: ...

    # --- its savepoints ------------------------------------------------------------------------------------

    def savepoints(self) -> SavepointTaker:
        """The part that takes the job's savepoints. Raises SAVEPOINT_REFUSED if the job can have none."""
        ...

    @property
    def last_savepoint(self) -> LastSavepoint: ...

    @property
    def a_stop_takes_a_savepoint(self) -> bool: ...


class SupervisedJob(Protocol):
    """The interface of a job for the connection to its supervisor."""

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait until the job has ended. Raises the error of a failed job."""
        ...

    def stop(self, timeout_seconds: float | None = None) -> None:
        """End it cleanly. Blocks until then."""
        ...

    def status(self) -> JobStatus: ...

    def error(self) -> BaseException | None:
        """The error of a failed job; None while it runs, or if it ended well."""
        ...

    def failed_place(self) -> dict[str, Any]:
        """The run and query that last ended with an error, and the epoch; None if there is none."""
        ...

    def failed_epochs(self) -> dict[str, int]:
        """For each query, the number of failed epochs in a row."""
        ...

    @property
    def tolerated(self) -> TidegateError | None:
        """The tolerated error that ended the job: a failed epoch whose query needs a new process."""
        ...

    @property
    def was_asked_to_end(self) -> bool: ...

    @property
    def outcome(self) -> EndOfJob: ...


class FailedRun(Protocol):
    """A failed run of a query, for the connection to its supervisor."""

    def place(self) -> dict[str, Any]:
        """The run, its query, and its epoch."""
        ...
