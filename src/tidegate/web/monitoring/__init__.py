"""What a monitoring of one's own imports: a dashboard for Grafana, and alert rules for Prometheus."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from starlette.responses import Response

from tidegate.web.routing import RouteRequest

DASHBOARD: Final = "dashboard.json"
ALERTS: Final = "alerts.yml"


def get_dashboard(asked: RouteRequest) -> Response:
    """`GET /monitoring/dashboard.json`."""
    return Response(content_of(DASHBOARD), media_type="application/json")


def get_alerts(asked: RouteRequest) -> Response:
    """`GET /monitoring/alerts.yml`."""
    return Response(content_of(ALERTS), media_type="text/plain")


def content_of(name: str) -> str:
    """A file of this package."""
    return (files(__name__) / name).read_text(encoding="utf-8")
