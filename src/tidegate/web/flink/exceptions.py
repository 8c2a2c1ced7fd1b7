"""Flink's view of a job's failures."""

from __future__ import annotations

from typing import Annotated

import msgspec

from tidegate.operate import Failure
from tidegate.web.flink.shapes import ExceptionHistory, ExecutionException, JobExceptions, RootException
from tidegate.web.own.histories import details_of
from tidegate.web.routing import RouteRequest
from tidegate.web.shapes import Asks

_SHOWN = 20
"""As many as Flink shows."""


class ExceptionsAsked(Asks, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`maxExceptions`: at most so many. `failureLabelFilter`: failures have no labels here, so a filter finds none."""

    maxExceptions: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = _SHOWN
    failureLabelFilter: str | None = None


def get_exceptions(asked: RouteRequest) -> JobExceptions:
    """`GET /jobs/:id/exceptions`."""
    query: ExceptionsAsked = asked.query
    failures = () if query.failureLabelFilter else asked.site.failures(asked.site.client(asked.path["job"]))
    shown = failures[: query.maxExceptions]
    newest = shown[0] if shown else None
    truncated = len(failures) > len(shown)
    return JobExceptions(
        root_exception=None if newest is None else _text(newest),
        timestamp=None if newest is None else _at(newest),
        all_exceptions=tuple(
            ExecutionException(exception=_text(each), task=each.query or "", location=each.where, timestamp=_at(each))
            for each in shown
        ),
        truncated=truncated,
        exceptionHistory=ExceptionHistory(
            entries=tuple(
                RootException(
                    exceptionName=each.code,
                    stacktrace=_text(each),
                    timestamp=_at(each),
                    taskName=each.query,
                    location=each.where,
                    failureLabels={},
                )
                for each in shown
            ),
            truncated=truncated,
        ),
    )


def _text(failure: Failure) -> str:
    """What happened, where, what it is about, and what to do."""
    details = [f"{name}: {value}" for name, value in details_of(failure).items()]
    lines = [failure.told, failure.where and f"at {failure.where}", *details, failure.remedy]
    return "\n".join(filter(None, lines))


def _at(failure: Failure) -> int:
    return int(failure.at * 1_000)
