"""Views of one job: its status and its history. They are read from the job's folder, which may be in use."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidegate.checkpoints.drained import drained_at
from tidegate.checkpoints.job_layout import retained_numbers
from tidegate.checkpoints.manifests import read_retained
from tidegate.core.errors import TidegateError
from tidegate.core.guarantees import Guarantee
from tidegate.core.records import TakenPart
from tidegate.operate.beat import ShownSetting
from tidegate.operate.checkpoints_history import read_checkpoints, read_totals
from tidegate.operate.done_checkpoint import DoneCheckpoint
from tidegate.operate.epoch_totals import QueryTotals
from tidegate.operate.failures import Failure, newest_failure, read_failures
from tidegate.operate.guarantees import read_guarantees
from tidegate.operate.milestones import Milestone, beside_failures, read_milestones
from tidegate.operate.sources import DescribedSource, read_sources
from tidegate.operate.status import JobView, QueryView, view_job, view_queries
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder


class BarriersView(msgspec.Struct, frozen=True, kw_only=True):
    """The newest retained checkpoint of a job with channels. `alignment`: "aligned", "unaligned" or "at-least-once".
    `taken`: by query, how it took part; nothing if all queries had ended.
    """

    number: int
    at: str
    alignment: str
    taken: dict[str, TakenPart]


class JobInfo(msgspec.Struct, frozen=True, kw_only=True):
    """How a job is, with its queries. `retained`: the numbers of its retained checkpoints. `drained_at`: when it was
    drained to its end, if it was: then no start resumes from its checkpoint. `guarantees`: those of its sinks, as its
    last start found them. `sources`: as its last start described them. `barriers`: of a job with channels, the newest
    retained checkpoint, with how each query has taken part."""

    job: JobView
    queries: tuple[QueryView, ...]
    retained: tuple[int, ...]
    drained_at: str | None
    guarantees: tuple[Guarantee, ...] = ()
    sources: tuple[DescribedSource, ...] = ()
    barriers: BarriersView | None = None

    @property
    def settings(self) -> tuple[ShownSetting, ...]:
        """The settings of the newest driver; secrets are hidden."""
        return () if self.job.beat is None else self.job.beat.settings


def _sources(job_folder: Folder) -> tuple[DescribedSource, ...]:
    """The descriptions of a job's sources; empty if this release cannot read them."""
    try:
        return tuple(read_sources(open_storage(job_folder)))
    except TidegateError:
        return ()


def _barriers(job_folder: Folder, retained: Sequence[int]) -> BarriersView | None:
    """None for a job without channels, and if this release cannot read the checkpoint."""
    try:
        newest = read_retained(job_folder, retained[-1]) if retained else None
    except TidegateError:
        return None
    if newest is None or not newest.alignment:
        return None
    return BarriersView(number=newest.number, at=newest.at, alignment=newest.alignment, taken=newest.taken)


class JobHistory(msgspec.Struct, frozen=True, kw_only=True):
    """The checkpoints, failures and milestones of a job over all its starts, newest first. A milestone that is
    among the failures is left out."""

    job: JobView
    checkpoints: tuple[DoneCheckpoint, ...]
    failures: tuple[Failure, ...]
    milestones: tuple[Milestone, ...]
    drained_at: str | None

    @property
    def restarts(self) -> tuple[Failure, ...]:
        """The failures after which the job, or one of its queries, was restarted."""
        return tuple(each for each in self.failures if each.restart_in_seconds is not None)


class JobTotals(msgspec.Struct, frozen=True, kw_only=True):
    """What a job has done in all its starts, also what its history no longer keeps. These numbers only rise, until
    the history is removed. `queries`: by query, those with a done epoch. `failures`, `restarts`: failures that
    its supervisor has recorded, and those of them that a restart followed. `failures_of_epochs`: those of them that
    name an epoch.
    """

    queries: dict[str, QueryTotals]
    failures: int
    restarts: int
    failures_of_epochs: int

    @property
    def failed_tries(self) -> int:
        """Tries of an epoch that have failed: those after which it ran again in the same process, and failures of the
        job in an epoch."""
        return self.failures_of_epochs + sum(each.failed for each in self.queries.values())


def read_info(job_folder: Folder) -> JobInfo:
    """Raises STORAGE_UNUSABLE, and RECORD_... if the record of a drain is unreadable."""
    view, retained = view_job(job_folder), retained_numbers(job_folder)
    return JobInfo(
        job=view,
        queries=tuple(view_queries(view)),
        retained=tuple(retained),
        drained_at=drained_at(job_folder, view.job_id),
        guarantees=tuple(read_guarantees(open_storage(job_folder))),
        sources=_sources(job_folder),
        barriers=_barriers(job_folder, retained),
    )


def read_history(job_folder: Folder, newest: int) -> JobHistory:
    """At most `newest` of each. Raises the errors of `read_info`, and RECORD_CORRUPT for an invalid history file."""
    view, failures = view_job(job_folder), read_failures(job_folder)
    milestones = beside_failures(read_milestones(job_folder), failures)
    return JobHistory(
        job=view,
        checkpoints=tuple(read_checkpoints(job_folder, at_most=newest)),
        failures=tuple(failures[:newest]),
        milestones=tuple(milestones[:newest]),
        drained_at=drained_at(job_folder, view.job_id),
    )


def read_job_totals(job_folder: Folder) -> JobTotals:
    """Lists two folders, and reads a file of each. Raises STORAGE_UNUSABLE."""
    failure = newest_failure(job_folder)
    return JobTotals(
        queries=read_totals(job_folder),
        failures=0 if failure is None else failure.number,
        restarts=0 if failure is None else failure.restarts,
        failures_of_epochs=0 if failure is None else failure.of_epochs,
    )
