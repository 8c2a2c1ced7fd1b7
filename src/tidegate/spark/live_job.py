"""What those that go along with a job may ask of it, and ask it for: all that they know of its handle."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from tidegate.core.errors import TidegateError
from tidegate.core.records import SavepointFormat
from tidegate.operate.beat import JobState, Wrong
from tidegate.operate.endings import EndMode
from tidegate.spark.job_status import JobStatus
from tidegate.spark.last_savepoint import LastSavepoint
from tidegate.spark.savepointing import SavepointTaker


class LiveJob(Protocol):
    """A job from its start to its end, for its companions. They never reach its queries' runs."""

    @property
    def name(self) -> str: ...

    def status(self) -> JobStatus:
        """How the job is now."""
        ...

    def epoch_seconds(self) -> float:
        """How long the epochs under way may take until they have ended; 0 where none is."""
        ...

    def under_way(self) -> dict[str, int]:
        """By query, the epoch that is under way, or the newest done one where none is."""
        ...

    def has_done(self, epochs: Mapping[str, int]) -> bool:
        """Whether all these epochs, by query, are done."""
        ...

    def finished(self) -> dict[str, int]:
        """By query, the newest epoch that is done; -1 where none is."""
        ...

    def last_epoch_ms(self, uid: str) -> float | None:
        """How long the newest done epoch of a query took."""
        ...

    def folder_of(self, uid: str) -> Path:
        """Where the ledger and Spark's log of a query are."""
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

    def end_state(self, error: BaseException | None) -> JobState:
        """What a job that has ended with this error, or none, is called."""
        ...

    def wrong(self, error: BaseException | None) -> Wrong:
        """What kind of thing was wrong with a job that has ended with this error, or none."""
        ...

    def not_drained(self) -> TidegateError:
        """What to say to whoever has asked for a drain, when the job has ended well without one."""
        ...

    @property
    def is_drained(self) -> bool: ...

    @property
    def left_behind(self) -> TidegateError | None:
        """Which decided epoch a cancel has left to the next start, if it has."""
        ...

    @property
    def has_given_up_its_checkpoints(self) -> bool: ...

    # --- its savepoints ------------------------------------------------------------------------------------

    def savepoints(self) -> SavepointTaker:
        """What takes the job's savepoints. Raises SAVEPOINT_REFUSED where the job can have none."""
        ...

    @property
    def last_savepoint(self) -> LastSavepoint: ...

    @property
    def a_stop_takes_a_savepoint(self) -> bool: ...


class SupervisedJob(Protocol):
    """A job, for the line to its supervisor."""

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait until the job has ended; raises what made it fail."""
        ...

    def stop(self, timeout_seconds: float | None = None) -> None:
        """End it cleanly, and block until then."""
        ...

    def status(self) -> JobStatus: ...

    def error(self) -> BaseException | None:
        """What made the job fail; None while it runs, or when it ended well."""
        ...

    def failed_place(self) -> dict[str, Any]:
        """Which run of which query has ended last with an error, and at which epoch; nothing where none has."""
        ...

    def failed_epochs(self) -> dict[str, int]:
        """By query, the failed epochs in a row."""
        ...

    @property
    def tolerated(self) -> TidegateError | None:
        """What has ended the job, where it is tolerated: a failed epoch whose query needs a new process."""
        ...

    @property
    def was_asked_to_end(self) -> bool: ...

    @property
    def leaves_a_drain(self) -> bool: ...


class FailedRun(Protocol):
    """A run of a query that has failed, for the line to its supervisor."""

    def place(self) -> dict[str, Any]:
        """Which run of which query this is, and at which epoch it was."""
        ...
