"""What a job has done: its epochs, its failures, what happened on the same axis."""

from __future__ import annotations

import math
from typing import Annotated

import msgspec

from tidegate.core.redaction import HIDDEN, SECRETS, is_secret
from tidegate.operate import DoneCheckpoint, Failure, Milestone, MilestoneKind, beside_failures
from tidegate.web.problems import problem_of
from tidegate.web.routing import RouteRequest
from tidegate.web.shapes import (
    Asks,
    EpochRow,
    EpochRows,
    EventOnAxis,
    EventOnAxisKind,
    EventsOnAxis,
    Failures,
    FailureShape,
    TransactionShape,
    TransactionsShape,
)

Newest = Annotated[int, msgspec.Meta(ge=1, le=10_000)]


class EpochsAsked(Asks, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`newest`: at most so many epochs. `before`: only those that were done before this time, in seconds since 1970."""

    newest: Newest = 200
    before: float | None = None


class SinceAsked(Asks, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`since`: nothing that is older, in seconds since 1970."""

    since: float = 0.0


def get_epochs(asked: RouteRequest) -> EpochRows:
    """`GET /jobs/:id/epochs`."""
    query: EpochsAsked = asked.query
    client = asked.site.client(asked.path["job"])
    before = math.inf if query.before is None else query.before
    found = asked.site.epochs(client, query.newest, before, periods=1.0)
    return EpochRows(epochs=tuple(epoch_row(each) for each in found))


def get_failures(asked: RouteRequest) -> Failures:
    """`GET /jobs/:id/failures`."""
    return Failures(
        failures=tuple(failure_shape(each) for each in asked.site.failures(asked.site.client(asked.path["job"])))
    )


def get_events_on_axis(asked: RouteRequest) -> EventsOnAxis:
    """`GET /jobs/:id/events-on-axis`."""
    query: SinceAsked = asked.query
    site, client = asked.site, asked.site.client(asked.path["job"])
    failures, beat = site.failures(client), site.info(client).job.beat
    milestones = beside_failures(site.milestones(client), failures)
    events = [*map(_of_milestone, milestones), *map(_of_failure, failures)]
    begun = [each.at for each in milestones if each.kind is MilestoneKind.START]
    if (
        beat is not None and max(begun, default=0.0) < beat.started_at
    ):  # a driver of an older release, or not written yet
        events.append(EventOnAxis(at=beat.started_at, kind=EventOnAxisKind.START, text="the job was started"))
    chosen = sorted((each for each in events if each.at >= query.since), key=lambda each: each.at)
    return EventsOnAxis(events=tuple(chosen))


def get_transactions(asked: RouteRequest) -> TransactionsShape:
    """`GET /jobs/:id/transactions`."""
    client = asked.site.client(asked.path["job"])
    found = asked.site.watch.view(("transactions", client.name), client.transactions, periods=5)
    return TransactionsShape(
        transactions=tuple(
            TransactionShape(
                query=each.query,
                sink=each.sink,
                target=each.target,
                name=each.name,
                epoch=each.epoch,
                run=each.run,
                task=each.task,
                rows=each.rows,
                age_seconds=each.age_seconds,
                named=each.named.value,
                seen=each.seen.value,
                verdict=each.verdict.value,
                would=_WOULD[each.verdict.value],
            )
            for each in found.waiting
        ),
        problems=tuple(problem_of(each) for each in found.problems),
    )


def epoch_row(each: DoneCheckpoint) -> EpochRow:
    """An epoch of the history."""
    return EpochRow(
        number=each.number,
        query=each.query,
        epoch=each.epoch,
        run=each.run,
        at=each.at,
        duration_ms=each.duration_ms,
        rows=each.rows,
        read=each.read,
        aborted=each.aborted,
        redone=each.redone,
        shown_again=each.shown_again,
        phases={phase.value: took for phase, took in each.phases.items()},
    )


def failure_shape(each: Failure) -> FailureShape:
    """A failure of the history."""
    return FailureShape(
        number=each.number,
        at=each.at,
        code=each.code,
        what=each.what,
        where=each.where,
        remedy=each.remedy,
        query=each.query,
        epoch=each.epoch,
        run=each.run,
        restart_in_seconds=each.restart_in_seconds,
        details=details_of(each),
    )


def details_of(each: Failure) -> dict[str, str]:
    """What a failure is about, by name, as texts without secrets."""
    return {name: HIDDEN if is_secret(name) else SECRETS.hide(str(value)) for name, value in each.details.items()}


_WOULD = {
    "commit": "`tidegate txn commit` would commit it with its epoch; so would the next start",
    "abort": "`tidegate txn abort` would abort it; so would the next start, and its input comes again",
    "in use": "the job runs and uses it: nothing is to be done",
    "foreign": "it belongs to another job, or to an earlier time of this one: `tidegate txn` leaves it alone",
    "unknown": "the records do not tell: look at the sink, then name it with `--force`",
}


def _of_milestone(each: Milestone) -> EventOnAxis:
    kind = EventOnAxisKind(each.kind.value)
    return EventOnAxis(at=each.at, kind=kind, text=each.text, query=each.query, epoch=each.epoch)


def _of_failure(each: Failure) -> EventOnAxis:
    kind = EventOnAxisKind.FAILURE if each.restart_in_seconds is None else EventOnAxisKind.RESTART
    return EventOnAxis(at=each.at, kind=kind, text=each.told, query=each.query, epoch=each.epoch)
