"""Errors as Flink's own client takes them: an object with the field `errors` alone. With any other field beside it, the
client reads an error as the answer that it has waited for (Flink 1.x and 2.x, `RestClient.parseResponse`).

The client is known by what it lacks: it sends no header `Accept`. Every other client gets problem details.
"""

from __future__ import annotations

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidegate.core.json_formats import parsed
from tidegate.web.problems import MEDIA_TYPE
from tidegate.web.shapes import Shape


class ErrorResponseBody(Shape, frozen=True, kw_only=True):
    """Flink's error."""

    errors: tuple[str, ...]


class PlainErrors:
    """Passes all on, and problem details for a client without `Accept` in Flink's form."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or any(name == b"accept" for name, _ in scope["headers"]):
            await self._app(scope, receive, send)
        else:
            await self._app(scope, receive, _Rewriting(send).send)


class _Rewriting:
    """One answer, whose body is kept until it is whole if it is a problem."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._body = bytearray()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and (b"content-type", MEDIA_TYPE.encode()) in message["headers"]:
            self._start = message
        elif self._start is None:
            await self._send(message)
        elif message["type"] == "http.response.body":
            self._body += message.get("body", b"")
            if not message.get("more_body", False):
                await self._send_plain(self._start)

    async def _send_plain(self, start: Message) -> None:
        body = msgspec.json.encode(parsed(bytes(self._body), ErrorResponseBody))
        changed = {b"content-type": b"application/json", b"content-length": str(len(body)).encode()}
        headers = [(name, changed.get(name, value)) for name, value in start["headers"]]
        await self._send({**start, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})
