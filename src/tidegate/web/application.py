"""The application: the routes with and without `/v1`, their guard, their checks, their problems."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import TypeVar

import anyio
import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp

from tidegate.core.errors import TidegateError
from tidegate.core.json_formats import UNFIT, Unreadable, parsed
from tidegate.web.acts import log_act
from tidegate.web.flink.plain_errors import PlainErrors
from tidegate.web.guarding import NOBODY_ACTS, Guarding, PageEntry, Visitor
from tidegate.web.problems import RequestProblem, as_response, problem, problem_of
from tidegate.web.routes import ROUTES
from tidegate.web.routing import Access, Method, Route, RouteRequest
from tidegate.web.shapes import Asks
from tidegate.web.site import Site
from tidegate.web.static import page_routes

PREFIXES = ("", "/v1")
"""Flink's clients put `/v1` before each path."""

BODY_BYTES_AT_MOST = 64 * 1024
BODY_SECONDS_AT_MOST = 20.0

AsksT = TypeVar("AsksT", bound=Asks)


def build(site: Site, routes: Sequence[Route] = ROUTES, entry: PageEntry = NOBODY_ACTS) -> ASGIApp:
    """The application that serves one storage. `entry`: the addresses of the server, and its tokens."""
    paths: dict[str, dict[Method, Route]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method] = route
    served = [
        StarletteRoute(prefix + path, _endpoint(site, by_method), methods=[method.value for method in by_method])
        for prefix in PREFIXES
        for path, by_method in paths.items()
    ]
    application = Starlette(
        routes=[*served, *page_routes()],
        exception_handlers={HTTPException: _refused, RequestProblem: _problem, Exception: _broken},
    )
    application.router.redirect_slashes = False  # a redirect would name the host that the request gives
    return PlainErrors(Guarding(application, entry))


def _endpoint(site: Site, by_method: Mapping[Method, Route]) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        method = Method.GET if request.method == "HEAD" else Method(request.method)
        route, visitor = by_method[method], Visitor.of(request.scope)
        visitor.demand(route.access)
        asked = RouteRequest(
            site=site,
            path=request.path_params,
            query=_query(route.query, request),
            body=None if route.body is None else _body(route.body, await _read(request)),
            headers=request.headers,
            caller=visitor.who,
            acting=visitor.entry.acting,
            may_act=visitor.may(Access.ACT),
        )
        answer: object = None
        try:
            answer = await run_in_threadpool(route.handler, asked)
        except TidegateError as error:
            answer = as_response(problem_of(error))
        except RequestProblem as refused:
            answer = as_response(refused.problem, refused.headers)
        finally:
            if route.access is Access.ACT:
                log_act(route, asked, answer)
        if isinstance(answer, Response):
            return answer
        return Response(msgspec.json.encode(answer), route.status, media_type=route.media_type)

    return endpoint


def _query(wanted: type[AsksT], request: Request) -> AsksT:
    """The parameters of a request. Raises `RequestProblem` for one that the route does not know, or that does not
    fit."""
    given = dict(request.query_params)
    try:
        return msgspec.convert(given, wanted, strict=False)
    except UNFIT as error:
        raise RequestProblem(HTTPStatus.BAD_REQUEST, f"the parameters do not fit: {error}") from None


def _body(wanted: type[AsksT], data: bytes) -> AsksT:
    try:
        return parsed(data or b"{}", wanted)
    except Unreadable as error:
        raise RequestProblem(HTTPStatus.BAD_REQUEST, f"the body does not fit: {error}") from None


async def _read(request: Request) -> bytes:
    """The body. Raises `RequestProblem` for a large or a slow one, before all of it is read."""
    read = bytearray()
    try:
        with anyio.fail_after(BODY_SECONDS_AT_MOST):
            async for part in request.stream():
                read += part
                if len(read) > BODY_BYTES_AT_MOST:
                    raise RequestProblem(
                        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body has more than {BODY_BYTES_AT_MOST} bytes"
                    )
    except TimeoutError:
        raise RequestProblem(
            HTTPStatus.REQUEST_TIMEOUT, f"the body did not arrive within {BODY_SECONDS_AT_MOST:g} s"
        ) from None
    return bytes(read)


async def _refused(request: Request, error: Exception) -> Response:
    """A path or a method that is not served."""
    status = HTTPStatus(error.status_code) if isinstance(error, HTTPException) else HTTPStatus.NOT_FOUND
    headers = error.headers if isinstance(error, HTTPException) else None
    return as_response(problem(status, f"{request.method} {request.url.path} is not served"), headers)


async def _problem(request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestProblem):
        raise error
    return as_response(error.problem, error.headers)


async def _broken(request: Request, error: Exception) -> Response:
    """An error of tidegate itself: the log has it, the client gets no details."""
    return as_response(
        problem(HTTPStatus.INTERNAL_SERVER_ERROR, "tidegate has failed to answer", "see the log of the page's process")
    )
