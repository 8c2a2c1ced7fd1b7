"""Flink's views of a cluster: here, of the storage that is served."""

from __future__ import annotations

import time
from importlib.metadata import version

from tidegate.web.flink.shapes import ClusterOverview, DashboardConfiguration, Features
from tidegate.web.flink.states import STATUS, FlinkStatus
from tidegate.web.routing import RouteRequest

_REFRESH_MILLISECONDS = 3_000


def get_config(asked: RouteRequest) -> DashboardConfiguration:
    """`GET /config`."""
    return DashboardConfiguration(
        refresh_interval=_REFRESH_MILLISECONDS,
        timezone_name=time.tzname[0],
        timezone_offset=-time.timezone * 1_000,
        flink_version=shown_version(),
        flink_revision="",
        features=Features(web_submit=bool(asked.site.programs), web_cancel=True),
    )


def get_overview(asked: RouteRequest) -> ClusterOverview:
    """`GET /overview`."""
    found = [STATUS[job.state] for job in asked.site.jobs()]
    return ClusterOverview(
        jobs_running=sum(each in _RUNNING for each in found),
        jobs_finished=found.count(FlinkStatus.FINISHED),
        jobs_cancelled=found.count(FlinkStatus.CANCELED),
        jobs_failed=found.count(FlinkStatus.FAILED),
        flink_version=shown_version(),
        flink_commit="",
    )


def shown_version() -> str:
    """The version of tidegate, where Flink's clients look for Flink's."""
    return f"tidegate-{version('tidegate')}"


_RUNNING = frozenset({FlinkStatus.CREATED, FlinkStatus.RUNNING, FlinkStatus.RESTARTING})
