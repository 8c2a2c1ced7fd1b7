"""What goes along with a running job beside the protocol: its log, its history, the desk that takes requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.core.effects import Happening

if TYPE_CHECKING:
    from tidegate.spark.live_job import LiveJob


class Companion:
    """Told what becomes of a job. What it raises ends the job, but for `ended`, whose errors follow the job's own.

    `happened` is called from the threads of the queries, the others from one thread of the job at a time.
    """

    def opening(self, handle: LiveJob) -> None:
        """The job holds its locks and nothing stands against its start; recovery of every query comes next.

        From here on `ended` is called in any case, also when the start fails.
        """

    def started(self, job: LiveJob) -> None:
        """Every query has been recovered and started."""

    def happened(self, query: str, run: int, happening: Happening) -> None:
        """Something happened in run `run` (0: not opened yet) of a query."""

    def look(self) -> None:
        """Called some twenty times a second while the job runs."""

    def drained(self) -> None:
        """Every query has been drained; nothing of the job's is emitted or committed any more."""

    def ended(self, error: BaseException | None) -> None:
        """Every query has ended, and nothing is written to the job's folder any more by the protocol."""
