"""Events of a supervisor while it keeps a job alive."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tidegate.core.errors import TidegateError
from tidegate.operate.failures import Failure
from tidegate.settings.kinds import WarmUp
from tidegate.storages.schemes import Folder


class News:
    """Receives the events of a supervisor, which calls a method for each event when it happens.

    The methods here do nothing. Subclasses show, log or pass on the events.
    """

    def declared(self, job: str, folder: Folder, warm_up: WarmUp) -> None:
        """Called when the program has declared its job. `job`: the job's name. `folder`: the job's folder. `warm_up`:
        the job's setting of this name.
        """

    def running(self) -> None:
        """Called when every query has been recovered and started."""

    def failed(self, failure: Failure) -> None:
        """Called when the driver has failed. `failure`: the error, and the query that caused it if that is known."""

    def query_failed(self, failure: Failure) -> None:
        """Called when one query has failed and the driver still runs."""

    def stopping(self) -> None:
        """Called when a stop was requested by a signal, or by a command that found no driver."""

    def stays(self, processes: Sequence[int]) -> None:
        """Called when SIGKILL has not ended these processes of a driver (process ids). If the driver's Python or JVM is
        among them, the job's locks prevent the next start."""

    def history_failed(self, error: TidegateError) -> None:
        """Called when a failure could not be stored, for example on a full disk, which may be the failure itself."""

    def warmed_up(self, archive: Path, size: int, seconds: float) -> None:
        """Called when an archive of Spark's classes was made beside the job: `size` bytes, in `seconds`."""

    def warm_up_failed(self, why: str) -> None:
        """Called when no archive of Spark's classes could be made. `why`: the reason. The job is not affected."""

    def standby_ready(self, process: int, memory: int) -> None:
        """Called when a standby waits. `memory`: the resident memory of all its processes, in bytes."""

    def standby_takes_over(self, process: int) -> None:
        """Called when the standby becomes the driver."""

    def standby_lost(self, why: str) -> None:
        """Called when a standby has died or cannot take over. `why`: a sentence with the reason. The job is not
        affected."""


class PassedOn(News):
    """Passes every event on to another receiver, `told`. Subclasses do more with some of the events."""

    def __init__(self, told: News) -> None:
        self._told = told

    def declared(self, job: str, folder: Folder, warm_up: WarmUp) -> None:
        self._told.declared(job, folder, warm_up)

    def running(self) -> None:
        self._told.running()

    def failed(self, failure: Failure) -> None:
        self._told.failed(failure)

    def query_failed(self, failure: Failure) -> None:
        self._told.query_failed(failure)

    def stopping(self) -> None:
        self._told.stopping()

    def stays(self, processes: Sequence[int]) -> None:
        self._told.stays(processes)

    def history_failed(self, error: TidegateError) -> None:
        self._told.history_failed(error)

    def warmed_up(self, archive: Path, size: int, seconds: float) -> None:
        self._told.warmed_up(archive, size, seconds)

    def warm_up_failed(self, why: str) -> None:
        self._told.warm_up_failed(why)

    def standby_ready(self, process: int, memory: int) -> None:
        self._told.standby_ready(process, memory)

    def standby_takes_over(self, process: int) -> None:
        self._told.standby_takes_over(process)

    def standby_lost(self, why: str) -> None:
        self._told.standby_lost(why)
