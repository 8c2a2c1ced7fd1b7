"""What a supervisor tells, while it keeps a job alive."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tidegate.core.errors import TidegateError
from tidegate.operate.failures import Failure


class News:
    """Told what happens, as it happens."""

    def declared(self, job: str, folder: Path) -> None:
        """The program has named its job."""

    def running(self) -> None:
        """Every query has been recovered and started."""

    def failed(self, failure: Failure) -> None:
        """The driver has failed; its failure may name the query that was at fault."""

    def query_failed(self, failure: Failure) -> None:
        """One query has failed, and its driver lives."""

    def stopping(self) -> None:
        """The job was asked to stop, by a signal, or by a command that has found no driver to ask."""

    def stays(self, processes: Sequence[int]) -> None:
        """Not even SIGKILL has ended these processes of a driver. The job's locks keep the next one out while its
        Python or its JVM is among them."""

    def history_failed(self, error: TidegateError) -> None:
        """A failure could not be kept: the disk is full or gone, which may be the failure itself."""
