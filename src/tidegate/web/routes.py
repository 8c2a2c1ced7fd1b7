"""Everything that is served, in one table. The OpenAPI document is written from it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from starlette.responses import Response

from tidegate.web import metrics, monitoring, openapi
from tidegate.web.flink.routes import FLINK
from tidegate.web.own import access, cards, histories, live, log, streams
from tidegate.web.own.action_routes import ACTIONS
from tidegate.web.routing import JSON, Access, Method, Route, RouteRequest, reads
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
    reads("/jobs/cards", "All jobs, those that failed first", cards.get_cards, JobCards),
    reads("/jobs/{job}/live", "One job now: its driver, queries and graph", live.get_live, JobLive),
    reads(
        "/jobs/{job}/epochs",
        "The newest epochs, with the time of each phase",
        histories.get_epochs,
        EpochRows,
        histories.EpochsAsked,
    ),
    reads("/jobs/{job}/failures", "The failures, the newest first", histories.get_failures, Failures),
    reads(
        "/jobs/{job}/events-on-axis",
        "Starts, savepoints, kills, failures, restarts and ends, on the axis of the epochs",
        histories.get_events_on_axis,
        EventsOnAxis,
        histories.SinceAsked,
    ),
    reads(
        "/jobs/{job}/transactions",
        "The transactions that wait, each with the verdict on it",
        histories.get_transactions,
        TransactionsShape,
    ),
    reads("/jobs/{job}/sinks", "The sinks, with what their readers see", live.get_sinks, SinksShape),
    reads("/jobs/{job}/sources", "The sources, with the lag of their readers", live.get_sources, SourcesShape),
    reads("/jobs/{job}/settings", "Each setting, and the place that has set it", live.get_settings, SettingsShape),
    reads("/jobs/{job}/log", "The end of the newest log, without secrets", log.get_log, LogLines, log.LogAsked),
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
    reads("/metrics", "The metrics of all jobs, for Prometheus", metrics.get_metrics, str, media_type="text/plain"),
    reads(
        f"/monitoring/{monitoring.DASHBOARD}",
        "A dashboard of these metrics for Grafana",
        monitoring.get_dashboard,
        JsonObject,
    ),
    reads(
        f"/monitoring/{monitoring.ALERTS}",
        "Alert rules on these metrics for Prometheus",
        monitoring.get_alerts,
        str,
        media_type="text/plain",
    ),
)

EVENTS: Sequence[Route] = (
    reads(
        "/events",
        "The cards of all jobs as they change, as server-sent events",
        streams.get_cards_events,
        str,
        media_type="text/event-stream",
    ),
    reads(
        "/jobs/{job}/events",
        "A job's state, epochs and failures as they come, as server-sent events; Last-Event-ID resumes",
        streams.get_job_events,
        str,
        media_type="text/event-stream",
    ),
)


@cache
def _document() -> bytes:
    return openapi.as_json(ROUTES)


def get_openapi(asked: RouteRequest) -> Response:
    """`GET /openapi.json`."""
    return Response(_document(), media_type=JSON)


ROUTES: Sequence[Route] = (
    *OWN,
    *EVENTS,
    *MONITORING,
    *ACTIONS,
    *FLINK,
    reads("/openapi.json", "This interface, as an OpenAPI document", get_openapi, JsonObject),
)
"""In the order of the document. The first route that fits a path counts."""
