"""Everything that is served, in one table. The OpenAPI document is written from it."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.responses import Response

from tidegate.web import metrics, monitoring, openapi
from tidegate.web.flink.routes import FLINK
from tidegate.web.own import access, cards, histories, live, log, streams
from tidegate.web.own.action_routes import ACTIONS
from tidegate.web.routing import Access, Method, Route, RouteRequest
from tidegate.web.shapes import (
    EpochRows,
    EventsOnAxis,
    Failures,
    JobCards,
    JobLive,
    JsonObject,
    LogLines,
    SettingsShape,
    SinksShape,
    SourcesShape,
    TransactionsShape,
)

OWN: Sequence[Route] = (
    Route(
        method=Method.GET,
        path="/jobs/cards",
        summary="All jobs, those that failed first",
        access=Access.READ,
        handler=cards.get_cards,
        answers=JobCards,
    ),
    Route(
        method=Method.GET,
        path="/jobs/{job}/live",
        summary="One job now: its driver, queries and graph",
        access=Access.READ,
        handler=live.get_live,
        answers=JobLive,
    ),
    Route(
        method=Method.GET,
        path="/jobs/{job}/epochs",
        summary="The newest epochs, with the time of each phase",
        access=Access.READ,
        handler=histories.get_epochs,
        answers=EpochRows,
        query=histories.EpochsAsked,
    ),
    Route(
        method=Method.GET,
        path="/jobs/{job}/failures",
        summary="The failures, the newest first",
        access=Access.READ,
        handler=histories.get_failures,
        answers=Failures,
    ),
    Route(
        method=Method.GET,
        path="/jobs/{job}/events-on-axis",
        summary="Starts, failures and restarts, on the axis of the epochs",
        access=Access.READ,
        handler=histories.get_events_on_axis,
        answers=EventsOnAxis,
        query=histories.SinceAsked,
    ),
    Route(
        method=Method.GET,
        path="/jobs/{job}/transactions",
        summary="The transactions that wait, each with the verdict on it",
        access=Access.READ,
        handler=histories.get_transactions,
        answers=TransactionsShape,
    ),
    Route(
        method=Method.GET,
        path="/jobs/{job}/sinks",
        summary="The sinks, with what their readers see",
        access=Access.READ,
        handler=live.get_sinks,
        answers=SinksShape,
    ),
    Route(
        method=Method.GET,
        path="/jobs/{job}/sources",
        summary="The sources, with the lag of their readers",
        access=Access.READ,
        handler=live.get_sources,
        answers=SourcesShape,
    ),
    Route(
        method=Method.GET,
        path="/jobs/{job}/settings",
        summary="Each setting, and the place that has set it",
        access=Access.READ,
        handler=live.get_settings,
        answers=SettingsShape,
    ),
    Route(
        method=Method.GET,
        path="/jobs/{job}/log",
        summary="The end of the newest log, without secrets",
        access=Access.READ,
        handler=log.get_log,
        answers=LogLines,
        query=log.LogAsked,
    ),
    Route(
        method=Method.GET,
        path="/access",
        summary="What this caller may do",
        access=Access.PAGE,
        handler=access.get_access,
        answers=access.AccessShape,
    ),
)

MONITORING: Sequence[Route] = (
    Route(
        method=Method.GET,
        path="/metrics",
        summary="The metrics of all jobs, for Prometheus",
        access=Access.READ,
        handler=metrics.get_metrics,
        answers=str,
        media_type="text/plain",
    ),
    Route(
        method=Method.GET,
        path=f"/monitoring/{monitoring.DASHBOARD}",
        summary="A dashboard of these metrics for Grafana",
        access=Access.READ,
        handler=monitoring.get_dashboard,
        answers=JsonObject,
    ),
    Route(
        method=Method.GET,
        path=f"/monitoring/{monitoring.ALERTS}",
        summary="Alert rules on these metrics for Prometheus",
        access=Access.READ,
        handler=monitoring.get_alerts,
        answers=str,
        media_type="text/plain",
    ),
)

EVENTS: Sequence[Route] = (
    Route(
        method=Method.GET,
        path="/events",
        summary="The cards of all jobs as they change, as server-sent events",
        access=Access.READ,
        handler=streams.get_cards_events,
        answers=str,
        media_type="text/event-stream",
    ),
    Route(
        method=Method.GET,
        path="/jobs/{job}/events",
        summary="A job's state, epochs and failures as they come, as server-sent events; Last-Event-ID resumes",
        access=Access.READ,
        handler=streams.get_job_events,
        answers=str,
        media_type="text/event-stream",
    ),
)


def get_openapi(asked: RouteRequest) -> Response:
    """`GET /openapi.json`."""
    return Response(openapi.as_json(ROUTES), media_type="application/json")


ROUTES: Sequence[Route] = (
    *OWN,
    *EVENTS,
    *MONITORING,
    *ACTIONS,
    *FLINK,
    Route(
        method=Method.GET,
        path="/openapi.json",
        summary="This interface, as an OpenAPI document",
        access=Access.READ,
        handler=get_openapi,
        answers=JsonObject,
    ),
)
"""In the order of the document. The first route that fits a path counts."""
