"""All jobs of a storage as cards: those that need attention come first."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tidegate.operate import DoneCheckpoint, JobView, State
from tidegate.web.routing import RouteRequest
from tidegate.web.shapes import JobCard, JobCards, LastCheckpoint
from tidegate.web.site import Site, flink_id

EPOCHS_OF_A_CARD = 30

_ORDER: Sequence[State] = (
    State.UNREADABLE,
    State.FAILED,
    State.DIED,
    State.UNKNOWN,
    State.RESTARTING,
    State.STARTING,
    State.RUNNING,
    State.STOPPED,
    State.CANCELED,
    State.FINISHED,
)


def get_cards(asked: RouteRequest) -> JobCards:
    """`GET /jobs/cards`."""
    return cards(asked.site)


def cards(site: Site) -> JobCards:
    """The card of every job, failures first, then by name."""
    found = sorted(site.jobs(), key=lambda job: (_ORDER.index(job.state), job.name))
    return JobCards(storage=str(site.storage), at=time.time(), jobs=tuple(card(site, job) for job in found))


def card(site: Site, job: JobView) -> JobCard:
    """The card of one job. A history that cannot be read is left out: the problem has its own place."""
    beat = job.beat
    queries = () if beat is None else beat.queries
    checkpoints = newest_epochs(site, job)
    return JobCard(
        id=flink_id(job.job_id),
        name=job.name,
        state=job.state.label,
        meaning=job.state.meaning,
        alive=job.state.alive,
        since=_since(job),
        problem=job.problem or ("" if beat is None else beat.error),
        rows_per_second=sum(query.rows_per_second for query in queries) if job.state.alive else 0.0,
        lag=", ".join(query.lag for query in queries if query.lag) or None,
        restarts=_restarts(site, job),
        last_checkpoint=_last(checkpoints),
        rates=tuple(_rate(each) for each in reversed(checkpoints)),
        queries=len(queries),
    )


def newest_epochs(site: Site, job: JobView) -> tuple[DoneCheckpoint, ...]:
    """The newest epochs of a job; none for a job that has not started, or is unreadable."""
    return site.of_history(job, lambda client: site.epochs(client, EPOCHS_OF_A_CARD)) or ()


def _since(job: JobView) -> float | None:
    """Since when a job is in its state, as far as its driver has told."""
    if job.beat is None:
        return None
    return job.beat.started_at if job.state.alive else job.beat.at


def _restarts(site: Site, job: JobView) -> int:
    """The restarts in the life of a job; 0 for a job that has not started, or is unreadable."""
    newest = site.of_history(job, site.newest_failure)
    return 0 if newest is None else newest.restarts


def _last(checkpoints: Sequence[DoneCheckpoint]) -> LastCheckpoint | None:
    if not checkpoints:
        return None
    newest = checkpoints[0]
    return LastCheckpoint(
        query=newest.query, epoch=newest.epoch, at=newest.at, duration_ms=newest.duration_ms, rows=newest.rows
    )


def _rate(each: DoneCheckpoint) -> float:
    """Rows per second of one epoch; 0 for one that recovery has completed."""
    return round(each.rows * 1000 / each.duration_ms, 1) if each.duration_ms else 0.0
