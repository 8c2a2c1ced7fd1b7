"""What a route is. The table of all routes is in `routes`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from tidegate.web.shapes import Asks, Nothing

if TYPE_CHECKING:
    from tidegate.web.site import Site


JSON = "application/json"
ACCEPTED = 202
"""The status of an answer with a ticket."""


class Access(Enum):
    """What a route lets its caller do. PAGE: load what the page itself consists of, with nothing of a job."""

    PAGE = "page"
    READ = "read"
    ACT = "act"


class Acting(Enum):
    """Who may act on jobs through a server."""

    TOKEN = "token"
    REFUSED = "refused"
    """Every action: no token was given to the server, and none was shown."""


class Method(Enum):
    """The methods of HTTP that routes use."""

    GET = "GET"
    POST = "POST"
    PATCH = "PATCH"
    DELETE = "DELETE"


@dataclass(frozen=True, slots=True)
class RouteRequest:
    """A request that fits its route. `path`: the parts of the path that are not fixed. `query` and `body`: of the types
    that the route names. `caller`: the address of the client, for the log. `acting`: who may act; `may_act`: whether
    this caller may."""

    site: Site
    path: Mapping[str, str]
    query: Any
    body: Any
    headers: Mapping[str, str]
    caller: str
    acting: Acting = Acting.REFUSED
    may_act: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One method of one path. `handler` runs in a thread of its own and may block; it returns a value of the type
    `answers`, or a `Response` of starlette's for what is no JSON. `flink`: Flink has this route, with the same path and
    the same fields."""

    method: Method
    path: str
    summary: str
    access: Access
    handler: Callable[[RouteRequest], object]
    answers: Any
    query: type[Asks] = Nothing
    body: type[Asks] | None = None
    status: int = 200
    flink: bool = False
    media_type: str = JSON


def reads(
    path: str,
    summary: str,
    handler: Callable[[RouteRequest], object],
    answers: Any,
    query: type[Asks] = Nothing,
    *,
    flink: bool = False,
    media_type: str = JSON,
) -> Route:
    """A view."""
    return Route(
        method=Method.GET,
        path=path,
        summary=summary,
        access=Access.READ,
        handler=handler,
        answers=answers,
        query=query,
        flink=flink,
        media_type=media_type,
    )


def begins(
    path: str,
    summary: str,
    handler: Callable[[RouteRequest], object],
    answers: Any,
    body: type[Asks],
    *,
    flink: bool = False,
) -> Route:
    """An action that takes long: 202 and a ticket answer it."""
    return Route(
        method=Method.POST,
        path=path,
        summary=summary,
        access=Access.ACT,
        handler=handler,
        answers=answers,
        body=body,
        status=ACCEPTED,
        flink=flink,
    )
