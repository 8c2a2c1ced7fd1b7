"""What is served: one storage, and the way in which its jobs are found and read."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from tidegate import operate
from tidegate.core.errors import TidegateError
from tidegate.operate import DoneCheckpoint, Failure, Folder, JobClient, JobInfo, JobTotals, JobView, Milestone
from tidegate.web.sharing import Streams
from tidegate.web.tickets import Tickets
from tidegate.web.watching import BY_REQUESTS_SECONDS, ON_A_DISK_SECONDS, ViewT, Watch
from tidegate.web.works import Works

_ID_DIGITS = 32
_JOBS_A_PERIOD = 25
_NAMES_PERIODS = 5.0
_PADDED = re.compile(r"([0-9a-fA-F]{8})0{24}")


def flink_id(job_id: str) -> str:
    """The id of a job as Flink's clients know ids: 32 hex digits. Ours has eight; zeros follow."""
    return job_id.ljust(_ID_DIGITS, "0") if job_id else ""


@dataclass(frozen=True, slots=True)
class Site:
    """One storage with its jobs. All views go through `watch`, all requests to jobs through `tickets`, and all other
    long works through `works`. `programs`: the folders of programs that may be started.
    """

    storage: Folder
    watch: Watch = field(repr=False)
    programs: tuple[str, ...] = ()
    streams: Streams = field(default_factory=Streams, repr=False)
    """What those read who follow events."""
    tickets: Tickets = field(default_factory=Tickets, repr=False)
    works: Works = field(default_factory=Works, repr=False)

    @classmethod
    def of(cls, storage: Folder, programs: tuple[str, ...] = ()) -> Site:
        """The site of a storage, with the period that fits it."""
        watch = Watch(ON_A_DISK_SECONDS if storage.is_local else BY_REQUESTS_SECONDS)
        return cls(storage, watch, programs, Streams(), Tickets(watch.forget), Works(watch.forget))

    def jobs(self) -> tuple[JobView, ...]:
        """All jobs, by name. Many jobs are read less often, so that the reads a minute stay bounded."""
        names = self.watch.view("names", lambda: operate.names(self.storage), periods=_NAMES_PERIODS)
        periods = max(1.0, len(names) / _JOBS_A_PERIOD)
        return self.watch.view("jobs", lambda: operate.jobs(self.storage), periods=periods)

    def client(self, named: str) -> JobClient:
        """A job by its name, its id, or its id as Flink's clients write it, also in capitals. Raises JOB_UNKNOWN,
        UID_INVALID."""
        padded = _PADDED.fullmatch(named)
        known = padded[1].lower() if padded else named
        return self.watch.view(("client", known), lambda: operate.open(self.storage, known), periods=5)

    def totals(self, job: JobView) -> JobTotals | None:
        """The totals of a job; None where `of_history` gives none."""
        return self.of_history(job, lambda client: self.watch.view(("totals", client.name), client.totals, periods=2))

    def of_history(self, job: JobView, view: Callable[[JobClient], ViewT]) -> ViewT | None:
        """What `view`, a method of this site, gives for a job; None for a job that has not started, or whose histories
        cannot be read: the state of the job says so."""
        if not job.job_id:
            return None
        try:
            return view(self.client(job.name))
        except TidegateError:
            return None

    def epochs(
        self, client: JobClient, newest: int, before: float = math.inf, *, periods: float = 2.0
    ) -> tuple[DoneCheckpoint, ...]:
        """The newest done epochs of a job, newest first, at most `newest`. `before`: only those that were done before
        this time. All that is asked for is in the key, so no reader gets what another one has asked for. Raises
        STORAGE_UNUSABLE."""
        key = ("epochs", client.name, newest, before)
        return self.watch.view(key, lambda: client.epochs(newest, before=before), periods=periods)

    def newest_failure(self, client: JobClient) -> Failure | None:
        """The newest failure of a job that can be read. Raises STORAGE_UNUSABLE."""
        return self.watch.view(("newest failure", client.name), client.newest_failure, periods=2)

    def failures(self, client: JobClient) -> tuple[Failure, ...]:
        """The failures of a job, newest first. Raises STORAGE_UNUSABLE, RECORD_..."""
        return self.watch.view(("failures", client.name), client.failures, periods=2)

    def milestones(self, client: JobClient) -> tuple[Milestone, ...]:
        """All milestones of a job, newest first, with those that are among its failures. Raises STORAGE_UNUSABLE."""
        return self.watch.view(("milestones", client.name), lambda: client.milestones(()), periods=2)

    def info(self, client: JobClient) -> JobInfo:
        """A job with its queries. Raises STORAGE_UNUSABLE, RECORD_..."""
        return self.watch.view(("info", client.name), client.info)
