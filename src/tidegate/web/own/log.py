"""The end of a job's log, with a filter."""

from __future__ import annotations

from typing import Annotated

import msgspec

from tidegate.web.routing import RouteRequest
from tidegate.web.shapes import Asks, LogLines


class LogAsked(Asks, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`lines`: at most so many, the newest. `filter`: only lines with this text, in small or capital letters."""

    lines: Annotated[int, msgspec.Meta(ge=1, le=5_000)] = 500
    filter: Annotated[str, msgspec.Meta(max_length=200)] = ""


def get_log(asked: RouteRequest) -> LogLines:
    """`GET /jobs/:id/log`."""
    client = asked.site.client(asked.path["job"])
    found = asked.site.watch.view(("log", client.name), client.log)
    wanted: LogAsked = asked.query
    text = wanted.filter.lower()
    lines = [line for line in found.lines if text in line.lower()]
    return LogLines(path=found.path, lines=tuple(lines[-wanted.lines :]), problem=found.problem)
