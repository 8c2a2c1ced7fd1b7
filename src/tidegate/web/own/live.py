"""One job now: its driver, its queries, its graph."""

from __future__ import annotations

from tidegate.core.errors import TidegateError
from tidegate.operate import BarriersView, DescribedSink, JobInfo, JobView, MilestoneKind, QueryView, graph_of
from tidegate.web.own.cards import card
from tidegate.web.routing import RouteRequest
from tidegate.web.shapes import (
    BarriersShape,
    DriverShape,
    JobLive,
    PartTaken,
    QueryLive,
    SettingShape,
    SettingsShape,
    SinkShape,
    SinksShape,
    SkippedShape,
    SourceShape,
    SourcesShape,
)
from tidegate.web.site import Site

_STATIC_PERIODS = 10.0
"""Descriptions change only at a start."""
_POSITION_PERIODS = 2.0
"""A record of each query is read for them."""


def get_live(asked: RouteRequest) -> JobLive:
    """`GET /jobs/:id/live`."""
    return live(asked.site, asked.path["job"])


def live(site: Site, job: str) -> JobLive:
    """One job now. Raises JOB_UNKNOWN, STORAGE_UNUSABLE."""
    info = site.info(site.client(job))
    beat = info.job.beat
    return JobLive(
        card=card(site, info.job),
        driver=_driver(info.job),
        error="" if beat is None else beat.error,
        queries=tuple(_query(query) for query in info.queries),
        graph=graph_of(info.queries, info.sources, described_sinks(site, info)),
        barriers=None if info.barriers is None else _barriers(info.barriers),
        retained=info.retained,
        drained_at=info.drained_at,
    )


def get_settings(asked: RouteRequest) -> SettingsShape:
    """`GET /jobs/:id/settings`."""
    info = asked.site.info(asked.site.client(asked.path["job"]))
    return SettingsShape(
        settings=tuple(SettingShape(name=each.name, value=each.value, origin=each.origin) for each in info.settings)
    )


def get_sources(asked: RouteRequest) -> SourcesShape:
    """`GET /jobs/:id/sources`."""
    client = asked.site.client(asked.path["job"])
    info = asked.site.info(client)
    read = asked.site.watch.view(("positions", client.name), lambda: client.positions(info), periods=_POSITION_PERIODS)
    skips: dict[str, list[SkippedShape]] = {}
    for found in asked.site.milestones(client):
        if found.kind is MilestoneKind.SKIP and found.source is not None:
            skip = SkippedShape(at=found.at, query=found.query, epoch=found.epoch, text=found.text)
            skips.setdefault(found.source, []).append(skip)
    lags = {
        each.uid: {
            query.uid: query.beat.lag
            for query in info.queries
            if each.uid in query.sources and query.beat is not None and query.beat.lag
        }
        for each in info.sources
    }
    return SourcesShape(
        sources=tuple(
            SourceShape(
                uid=each.uid,
                kind=each.kind,
                told=each.told,
                lag=lags[each.uid],
                offsets={found.query: found.lines for found in read if found.source == each.uid},
                skipped=tuple(skips.get(each.uid, ())),
            )
            for each in info.sources
        )
    )


def get_sinks(asked: RouteRequest) -> SinksShape:
    """`GET /jobs/:id/sinks`."""
    client = asked.site.client(asked.path["job"])
    info = asked.site.info(client)
    totals = asked.site.totals(info.job)
    queries = () if totals is None else tuple(totals.queries.values())
    guarantees = {(each.query, each.sink): each.text for each in info.guarantees}
    waiting = {query.uid: None if query.beat is None else query.beat.open_transactions for query in info.queries}
    return SinksShape(
        sinks=tuple(
            SinkShape(
                query=each.query,
                uid=each.uid,
                kind=each.target["type"],
                told=each.told,
                level=each.level.value,
                guarantee=guarantees.get((each.query, each.uid), ""),
                open_transactions=waiting.get(each.query),
            )
            for each in described_sinks(asked.site, info)
        ),
        epochs_done=sum(each.epochs for each in queries),
        committed=sum(each.committed for each in queries),
        aborted=sum(each.aborted for each in queries),
        redone=sum(each.redone for each in queries),
        shown_again=sum(each.shown_again for each in queries),
    )


def described_sinks(site: Site, info: JobInfo) -> tuple[DescribedSink, ...]:
    """The sinks of a job; none if this release cannot read their descriptions."""
    client = site.client(info.job.name)
    try:
        return site.watch.view(("sinks", client.name), client.sinks, periods=_STATIC_PERIODS)
    except TidegateError:
        return ()


def _driver(job: JobView) -> DriverShape | None:
    beat = job.beat
    if beat is None:
        return None
    return DriverShape(
        host=beat.host, process=beat.process, started_at=beat.started_at, at=beat.at, application=beat.application
    )


def _query(query: QueryView) -> QueryLive:
    beat = query.beat
    return QueryLive(
        uid=query.uid,
        generation=query.generation,
        run=None if beat is None else beat.run,
        epoch=None if beat is None else beat.epoch,
        finished=query.finished if beat is None else max(beat.finished, query.finished),
        rows=0 if beat is None else beat.rows,
        rows_per_second=0.0 if beat is None else beat.rows_per_second,
        epoch_ms=None if beat is None else beat.epoch_ms,
        lag=None if beat is None else beat.lag,
        last_done_at=None if beat is None else beat.last_done_at,
        open_transactions=0 if beat is None else beat.open_transactions,
        dead_letters=0 if beat is None else beat.dead_letters,
        sources=query.sources,
        sinks=query.sinks,
    )


def _barriers(found: BarriersView) -> BarriersShape:
    return BarriersShape(
        number=found.number,
        at=found.at,
        alignment=found.alignment,
        taken={
            query: PartTaken(
                after_ms=part.after_ms,
                aligned_ms=part.aligned_ms,
                rows_held=part.rows_held,
                bytes_held=part.bytes_held,
                rows_in_flight=part.rows_in_flight,
            )
            for query, part in found.taken.items()
        },
    )
