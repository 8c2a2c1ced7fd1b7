"""Everything that is served, in one table. The OpenAPI document is written from it."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.responses import Response

from tidegate.web import openapi
from tidegate.web.flink.routes import FLINK
from tidegate.web.own import cards, histories, live
from tidegate.web.own.action_routes import ACTIONS
from tidegate.web.routing import Access, Asked, Method, Route
from tidegate.web.shapes import (
    EpochRows,
    EventsOnAxis,
    Failures,
    JobCards,
    JobLive,
    JsonObject,
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
)


def get_openapi(asked: Asked) -> Response:
    """`GET /openapi.json`."""
    return Response(openapi.as_json(ROUTES), media_type="application/json")


ROUTES: Sequence[Route] = (
    *OWN,
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
