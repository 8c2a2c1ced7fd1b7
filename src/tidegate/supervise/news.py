"""Events of a supervisor while it keeps a job alive."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tidegate.core.errors import TidegateError
from tidegate.operate.failures import Failure


class News:
    """Receives each event as it happens."""

    def declared(self, job: str, folder: Path) -> None:
        """The program has named its job."""

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
