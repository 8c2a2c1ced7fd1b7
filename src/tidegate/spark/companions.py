"""The parts beside a running job and its protocol: its log, its history, the desk for requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.core.effects import Happening

if TYPE_CHECKING:
    from tidegate.spark.live_job import LiveJob


class Companion:
    """Notified of the events of a job. An error ends the job, except from `ended`, whose errors come after the job's
    own.

    `happened` is called from the threads of the queries, the others from one thread of the job at a time.
    """

    def opening(self, handle: LiveJob) -> None:
        """The job holds its locks and all checks of its start have passed; recovery of every query comes next.

        From here on `ended` is called in any case, also when the start fails.
        """

    def started(self, job: LiveJob) -> None:
        """Every query has been recovered and started."""

    def happened(self, query: str, run: int, happening: Happening) -> None:
        """Called for each event of a query. `run`: the number of its run; 0 if no run was opened yet."""

    def look(self) -> None:
        """Called about twenty times a second while the job runs. Must return quickly."""

    def drained(self) -> None:
        """Every query has been drained: the job no longer emits or commits."""

    def ended(self, error: BaseException | None) -> None:
        """Every query has ended, and the protocol no longer writes to the job's folder."""
