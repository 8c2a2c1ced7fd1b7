"""A page on loopback, as its users have it: a real server, asked over plain sockets."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from tests.jobs.folders import make_job, say
from tidegate.operate import Folder
from tidegate.operate.beat import JobState
from tidegate.settings.config import Settings
from tidegate.web.routes import ROUTES
from tidegate.web.routing import Access, Method, Route, RouteRequest
from tidegate.web.serving import WebPage
from tidegate.web.shapes import Asks
from tidegate.web.tokens import Token, TokenOrigin

TOKEN = "the-token-of-these-tests-0123456789"
KNOWN = Token(TOKEN, TokenOrigin.FILE)
RIGHT: Mapping[str, str] = {"Authorization": f"Bearer {TOKEN}"}
ACT = "/jobs/job/acts"
_ANSWER_SECONDS = 20.0


class Act(Asks, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of an action."""

    id: str = ""


class ActDone(msgspec.Struct, frozen=True):
    """The answer to an action."""

    request_id: str


@dataclass(slots=True)
class Acts:
    """The actions that were carried out, as the handler has got them."""

    done: list[RouteRequest] = field(default_factory=list[RouteRequest])

    @property
    def routes(self) -> Sequence[Route]:
        """Those of every page, and one action."""
        act = Route(
            method=Method.POST,
            path="/jobs/{job}/acts",
            summary="An action",
            access=Access.ACT,
            handler=self._act,
            answers=ActDone,
            body=Act,
            status=202,
        )
        return (*ROUTES, act)

    def _act(self, asked: RouteRequest) -> ActDone:
        self.done.append(asked)
        return ActDone(asked.body.id or "made-here")


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer: status 0 if the server has closed the connection without one."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class ServedPage:
    """A page that serves."""

    page: WebPage
    port: int
    acts: Acts

    def forget_wrong_tokens(self) -> None:
        """As a minute does."""
        vars(vars(self.page)["_entry"].tokens)["_wrong"].clear()

    def ask(
        self,
        target: str,
        headers: Mapping[str, str] | None = None,
        *,
        method: str = "GET",
        body: bytes = b"",
        host: str | None = "127.0.0.1",
    ) -> Answered:
        """One request, as it is given: nothing is escaped, added to, or refused here. `host`: without the port. It asks
        for JSON: errors come as problem details."""
        lines = [f"{method} {target} HTTP/1.1"]
        lines += [] if host is None else [f"Host: {host}:{self.port}"]
        lines += ["Accept: application/json"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        lines += [f"Content-Length: {len(body)}"] if body else []
        return self.send("\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1") + body)

    def act(self, headers: Mapping[str, str] | None = None, body: bytes = b"{}", host: str = "127.0.0.1") -> Answered:
        """Ask for the action."""
        return self.ask(ACT, {**RIGHT, **(headers or {})}, method="POST", body=body, host=host)

    def send(self, data: bytes) -> Answered:
        """The answer to these bytes."""
        with socket.create_connection(("127.0.0.1", self.port), _ANSWER_SECONDS) as connection:
            connection.sendall(data)
            return answer_of(connection)


def answer_of(connection: socket.socket) -> Answered:
    """The answer on a connection that the server closes behind it."""
    data = bytearray()
    try:
        while part := connection.recv(65_536):
            data += part
    except ConnectionResetError:  # with the rest of a request unread
        pass
    head, _, body = bytes(data).partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    named = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in named}
    return Answered(int(first.split()[1]) if " " in first else 0, headers, body)


@contextmanager
def served_page(
    folder: Path,
    token: Token | None = KNOWN,
    **settings: Any,
) -> Iterator[ServedPage]:
    """The page of a folder, with one job in it."""
    if not (folder / "job").exists():
        say(make_job(folder), JobState.FINISHED)
    acts, given = Acts(), dict[str, Any](ui_port=0) | settings
    with WebPage(Settings(**given), token) as page:
        page.start(Folder.of(folder), acts.routes)
        yield ServedPage(page, int(page.address.rpartition(":")[2]), acts)
    assert page.wait(10.0)
