"""A server for the page alone: its real files, and answers that a test puts down by their paths."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.web import canned, canned_saved
from tidegate.testing.kafka.ports import free_port
from tidegate.web.guarding import SECURITY_HEADERS
from tidegate.web.routes import ROUTES
from tidegate.web.routing import Method
from tidegate.web.static import page_routes

TOKEN = "4f2a-the-token"


@dataclass(slots=True)
class Canned:
    """`answers`: by path, without its parameters: a value, or a function of the request. What is not named is not
    served. `asked`: each request of a method other than GET, with its body. Those need the token."""

    answers: dict[str, Any] = field(default_factory=dict[str, Any])
    asked: list[tuple[str, str, Any]] = field(default_factory=list[tuple[str, str, Any]])
    paths: list[str] = field(default_factory=list[str])

    def app(self) -> Starlette:
        return Starlette(routes=[*page_routes(), Route("/{path:path}", self._answer, methods=["GET", "POST"])])

    async def _answer(self, request: Request) -> Response:
        path = request.url.path
        self.paths.append(path)
        if request.method != "GET":
            if request.headers.get("authorization") != f"Bearer {TOKEN}":
                return _json({"title": "Unauthorized", "status": 401, "detail": "the request needs the token"}, 401)
            body = await request.body()
            takes_it(path, body)
            self.asked.append((request.method, path, msgspec.json.decode(body or b"null")))
        if path == "/access":
            right = request.headers.get("authorization") == f"Bearer {TOKEN}"
            return _json({"acting": "token", "may_act": right, "programs": True})
        if path not in self.answers:
            return _json({"title": "Not Found", "status": 404, "detail": f"GET {path} is not served"}, 404)
        answer = self.answers[path]
        value = answer(request) if callable(answer) else answer
        return value if isinstance(value, Response) else _json(value, 202 if request.method == "POST" else 200)


def takes_it(path: str, body: bytes) -> None:
    """Raises an error if the real interface has no such action, or refuses its body."""
    (route,) = (each for each in ROUTES if each.method is Method.POST and compile_path(each.path)[0].match(path))
    if route.body is not None:
        msgspec.json.decode(body, type=route.body)


def _json(value: object, status: int = 200) -> Response:
    kind = "application/json" if status < 400 else "application/problem+json"
    return Response(msgspec.json.encode(value), status, media_type=kind)


def full(job: str = "wordcount") -> dict[str, Any]:
    """All views of one running job among others."""
    at = f"/jobs/{job}"
    return {
        "/jobs/cards": canned.cards(),
        f"{at}/live": canned.live(job),
        f"{at}/epochs": canned.epochs(),
        f"{at}/events-on-axis": canned.events(),
        f"{at}/checkpoints": canned_saved.CHECKPOINTS,
        f"{at}/checkpoints/config": canned_saved.CONFIG,
        f"{at}/sinks": canned.sinks(),
        f"{at}/sources": canned.sources(),
        f"{at}/transactions": canned.transactions(),
        f"{at}/failures": canned.failures(),
        f"{at}/settings": canned.settings(),
        f"{at}/log": canned.log(),
        "/savepoints": {
            "folders": ["hdfs://store/savepoints"],
            "savepoints": [canned_saved.savepoint(), canned_saved.savepoint(canned.PATH[:-1] + "7", 17_900)],
            "problems": [],
        },
        "/savepoints/details": canned_saved.DETAILS,
        "/savepoints/diff": {"differences": [{"what": ["counts", "epoch"], "one": 18_150, "other": 17_900}]},
        "/jars": canned_saved.JARS,
    }


class Served:
    """An application on a free port of loopback. It can go away, and come back at the same port."""

    def __init__(self, app: ASGIApp) -> None:
        self.port = free_port(())
        self._app = app
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        config = uvicorn.Config(
            _with_policy(self._app), port=self.port, log_level="warning", timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        until = time.monotonic() + 30
        while not self._server.started:
            assert time.monotonic() < until, "the server has not started in 30 s"
            time.sleep(0.02)

    def stop(self) -> None:
        if self._server is None or self._thread is None:
            return
        self._server.should_exit = True
        self._thread.join(30)
        assert not self._thread.is_alive(), "the server has not ended in 30 s"


def _with_policy(app: ASGIApp) -> ASGIApp:
    """The same with the headers that the guard puts on each answer: what the page does has to fit them."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(SECURITY_HEADERS)
            await send(message)

        await app(scope, receive, sent)

    return answer


@contextmanager
def served(app: ASGIApp) -> Iterator[Served]:
    """An application while it is served."""
    server = Served(app)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def ticket(states: Mapping[int, Mapping[str, Any]]) -> Callable[[Request], Mapping[str, Any]]:
    """A ticket that changes: by how often it was looked at, the newest that fits."""
    looked = 0

    def answer(_: Request) -> Mapping[str, Any]:
        nonlocal looked
        looked += 1
        return states[max(number for number in states if number <= looked)]

    return answer
