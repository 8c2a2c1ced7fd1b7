"""What is served: one storage, and the way in which its jobs are found and read."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from tidegate import operate
from tidegate.operate import Folder, JobClient, JobInfo, JobView
from tidegate.web.tickets import Tickets
from tidegate.web.watching import BY_REQUESTS_SECONDS, ON_A_DISK_SECONDS, Watch
from tidegate.web.works import Works

_ID_DIGITS = 32
_PADDED = re.compile(r"([0-9a-f]{8})0{24}")


def flink_id(job_id: str) -> str:
    """The id of a job as Flink's clients know ids: 32 hex digits. Ours has eight; zeros follow."""
    return job_id.ljust(_ID_DIGITS, "0") if job_id else ""


@dataclass(frozen=True, slots=True)
class Site:
    """One storage with its jobs. All views go through `watch`, all requests to jobs through `tickets`, and all other
    long works through `works`. `programs`: the folders whose programs may be started; empty: none may.
    """

    storage: Folder
    watch: Watch = field(repr=False)
    tickets: Tickets = field(repr=False)
    works: Works = field(repr=False)
    programs: tuple[Path, ...] = ()

    @classmethod
    def of(cls, storage: Folder, programs: tuple[Path, ...] = ()) -> Site:
        """The site of a storage, with the period that fits it."""
        watch = Watch(ON_A_DISK_SECONDS if storage.is_local else BY_REQUESTS_SECONDS)
        return cls(storage, watch, Tickets(watch.forget), Works(watch.forget), programs)

    def jobs(self) -> tuple[JobView, ...]:
        """All jobs, by name."""
        return self.watch.view("jobs", lambda: operate.jobs(self.storage))

    def client(self, named: str) -> JobClient:
        """A job by its name, its id, or its id as Flink's clients write it. Raises JOB_UNKNOWN, UID_INVALID."""
        padded = _PADDED.fullmatch(named)
        return self.watch.view(
            ("client", named), lambda: operate.open(self.storage, padded[1] if padded else named), periods=5
        )

    def info(self, client: JobClient) -> JobInfo:
        """A job with its queries. Raises STORAGE_UNUSABLE, RECORD_..."""
        return self.watch.view(("info", client.name), client.info)
