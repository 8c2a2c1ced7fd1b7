"""Renders a running job for a terminal: a pure function of its beat and of the supervisor's knowledge."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tidegate.cli.view import stop_message
from tidegate.operate import Beat, QueryBeat

SILENT_SECONDS = 5.0
"""A driver reports every second: after this time without a report the view shows a note."""
STILL_SECONDS = 30.0
"""An epoch in the same phase for this time gets a note; a long epoch is no error."""


class SupervisorStage(Enum):
    """The supervisor's current activity. The beat shows whether a driver has started its job."""

    RUNNING = "running"
    RESTARTING = "waiting to restart"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The supervisor's knowledge of its job. Times are seconds since 1970.

    `since`: reports of drivers that started earlier are out of date. `why`: a short text of the error that ended the
    last driver. `restart_at`: the time of the next start, or of the current one.
    """

    stage: SupervisorStage
    since: float
    restarts: int = 0
    restart_at: float = 0.0
    why: str = ""


def live_view(beat: Beat | None, watched: Watched, now: float) -> RenderableType:
    """The whole picture. Figures of an earlier driver's beat are dimmed."""
    if beat is None:
        return _head(None, watched, now)
    old = beat.started_at < watched.since
    table = _table(beat.queries, now, style="dim" if old or _pauses(watched, now) else "")
    return Group(_head(None if old else beat, watched, now, job=beat.job), table)


def _head(beat: Beat | None, watched: Watched, now: float, job: str = "") -> Text:
    words = Text(job, style="bold", no_wrap=True, overflow="ellipsis")
    parts = [*_said_of(beat, watched, now)]
    if watched.restarts:
        parts.append((f"{watched.restarts} restart{'' if watched.restarts == 1 else 's'}", "yellow"))
    if beat is not None:
        parts.append((f"process {beat.process}", "dim"))
    for text, style in parts:
        words.append("  " if words.plain else "", style="not bold")
        words.append(text, style=f"not bold {style}")
    return words


def _said_of(beat: Beat | None, watched: Watched, now: float) -> Sequence[tuple[str, str]]:
    if watched.stage is SupervisorStage.STOPPING:
        return [(stop_message(beat), "yellow")]
    if _pauses(watched, now):
        why = f" after {watched.why}" if watched.why else ""
        return [(f"starts again in {math.ceil(watched.restart_at - now)} s{why}", "red")]
    if beat is None:
        return [(f"the driver is starting, {duration(now - max(watched.since, watched.restart_at))}", "cyan")]
    return [(f"running {duration(now - beat.started_at)}", "green"), *_worries(beat, now)]


def _pauses(watched: Watched, now: float) -> bool:
    return watched.stage is SupervisorStage.RESTARTING and watched.restart_at > now


def _worries(beat: Beat, now: float) -> Sequence[tuple[str, str]]:
    if now - beat.at >= SILENT_SECONDS:
        return [(f"no sign of life for {duration(now - beat.at)}", "bold red")]
    if now - beat.progress_at >= STILL_SECONDS:
        return [(f"no progress for {duration(now - beat.progress_at)}", "yellow")]
    return []


def _table(queries: Sequence[QueryBeat], now: float, style: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), style=style, header_style="dim")
    table.add_column("query", no_wrap=True, overflow="ellipsis", min_width=5)
    for column in ("epoch", "rows", "rows/s", "lag", "last checkpoint", "duration", "open transactions"):
        table.add_column(column, justify="right", no_wrap=True, overflow="ellipsis")
    for query in queries:
        table.add_row(
            Text(query.uid),
            "-" if query.epoch < 0 and query.finished < 0 else str(max(query.epoch, query.finished)),
            str(query.rows),
            f"{query.rows_per_second:.1f}" if query.rows_per_second < 100 else f"{query.rows_per_second:.0f}",
            Text(query.lag or "-"),
            "-" if query.last_done_at is None else f"{duration(now - query.last_done_at)} ago",
            "-" if query.epoch_ms is None else f"{query.epoch_ms:.0f} ms",
            str(query.open_transactions),
            style=style,
        )
    return table


def duration(seconds: float) -> str:
    """A duration in its two largest units, at least 0: clocks of two machines may differ."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60:02} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600:02} h"
