"""Events of a supervisor while it keeps a job alive."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tidegate.core.errors import TidegateError
from tidegate.operate.failures import Failure
from tidegate.settings.kinds import WarmUp


class News:
    """Receives each event as it happens."""

    def declared(self, job: str, folder: Path, warm_up: WarmUp) -> None:
        """The program has named its job. `warm_up`: its setting of this name."""

    def running(self) -> None:
        """Every query has been recovered and started."""

    def failed(self, failure: Failure) -> None:
        """The driver has failed. The failure may name the query that caused it."""

    def query_failed(self, failure: Failure) -> None:
        """One query has failed, and its driver is alive."""

    def stopping(self) -> None:
        """A stop was requested by a signal, or by a command that found no driver."""

    def stays(self, processes: Sequence[int]) -> None:
        """SIGKILL has not ended these processes of a driver. If the driver's Python or JVM is among them, the job's
        locks prevent the next start."""

    def history_failed(self, error: TidegateError) -> None:
        """A failure could not be stored: the disk is full or gone, which may be the failure itself."""

    def warmed_up(self, archive: Path, size: int, seconds: float) -> None:
        """An archive of Spark's classes was made beside the job: `size` bytes, in `seconds`."""

    def warm_up_failed(self, why: str) -> None:
        """No such archive was made. The job is not affected."""


class PassedOn(News):
    """Passes every event on to `told`. A subclass adds what it does itself."""

    def __init__(self, told: News) -> None:
        self._told = told

    def declared(self, job: str, folder: Path, warm_up: WarmUp) -> None:
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
