"""A proxy in front of an HTTP server that loses requests and answers, or answers itself.

with HttpFaults(s3.endpoint) as faults:
    faults.next(Fate.LOSE_ANSWER, "PUT")
    ...  # the client connects to `faults.endpoint`
"""

from __future__ import annotations

import http.client
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import TypeAlias
from urllib.parse import urlsplit

_TIMEOUT_SECONDS = 30.0
_LATE_SECONDS = 0.6
_OF_A_CONNECTION = frozenset({"connection", "keep-alive", "transfer-encoding"})
_CONDITIONS = frozenset({"if-none-match", "if-match"})


class Fate(Enum):
    """What becomes of a request."""

    PASS = "the server answers"
    LOSE_REQUEST = "the connection breaks before the server hears of it"
    LOSE_ANSWER = "the server executes it, and the connection breaks"
    LATE = "the connection breaks, and some time later the server executes it"
    FAIL_AFTER = "the server executes it, and the client is told 500"
    ERROR = "the client is told 500 at once"
    PRETEND = "the client is told 200, and the server hears nothing of it"
    SLOW_DOWN = "the client is told 503 at once"
    SILENCE = "the server hears nothing of it, and the client waits until it hangs up"
    UNCONDITIONAL = "the server answers, but never sees the condition of the request"


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer of the proxy's own, as S3 documents its errors. To a HEAD it has no body."""

    status: int
    code: str
    message: str = "as the test wants it"
    headers: tuple[tuple[str, str], ...] = ()


UNANSWERED = [Fate.LOSE_REQUEST, Fate.LOSE_ANSWER, Fate.FAIL_AFTER, Fate.ERROR, Fate.SLOW_DOWN]
"""The fates after which a client does not know what has become of its request."""

_ERROR = Refusal(500, "InternalError")
_BREAKS = frozenset({Fate.LOSE_REQUEST, Fate.LOSE_ANSWER, Fate.LATE, Fate.SILENCE})
_REFUSALS = {Fate.FAIL_AFTER: _ERROR, Fate.ERROR: _ERROR, Fate.SLOW_DOWN: Refusal(503, "SlowDown")}


def half(seed: int, *fates: Fate) -> Callable[[str], Fate]:
    """Half of the requests pass, and the others have one of these fates. The same for the same seed."""
    chance = random.Random(seed)
    return lambda _: chance.choice([Fate.PASS, chance.choice(fates)])


class HttpFaults:
    """Listens on loopback; passes everything until it is told otherwise. Counts the requests by method. Port 0: any."""

    def __init__(self, endpoint: str, port: int = 0) -> None:
        self.upstream = urlsplit(endpoint).netloc
        self.seen: Counter[str] = Counter()
        self.struck: Counter[Fate | Refusal] = Counter()
        self._fate_of: Callable[[str], Fate | Refusal] = lambda _: Fate.PASS
        self._lock = threading.Lock()
        faults = self

        class Handler(_Handler):
            proxy = faults

        self._server = _QuietServer(("127.0.0.1", port), Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def each(self, fate_of: Callable[[str], Fate | Refusal]) -> None:
        """Ask this function for the fate of each request, by its method."""
        self._fate_of = fate_of

    def next(self, fate: Fate, method: str, count: int = 1) -> None:
        """The next `count` requests of this method get this fate, and then everything passes."""
        left = [count]

        def fate_of(found: str) -> Fate:
            if found != method or left[0] == 0:
                return Fate.PASS
            left[0] -= 1
            return fate

        self.each(fate_of)

    def judge(self, method: str) -> Fate | Refusal:
        with self._lock:
            self.seen[method] += 1
            fate = self._fate_of(method)
            self.struck[fate] += 1
            return fate

    def __enter__(self) -> HttpFaults:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), name="http-faults", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


_Answer: TypeAlias = tuple[int, list[tuple[str, str]], bytes]
"""The status, the headers, the body."""


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is no news."""


class _Handler(BaseHTTPRequestHandler):
    proxy: HttpFaults
    protocol_version = "HTTP/1.1"

    def handle_one_request(self) -> None:
        self.raw_requestline = self.rfile.readline(65_537)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        fate = self.proxy.judge(self.command)
        if isinstance(fate, Refusal):
            self._refuse(fate)
        elif fate in _REFUSALS:
            if fate is Fate.FAIL_AFTER:
                self._forwarded(body)
            self._refuse(_REFUSALS[fate])
        elif fate in _BREAKS:
            self._break(fate, body)
        elif fate is Fate.PRETEND:
            self._answer(200, [("Content-Length", "0"), ("ETag", '"none"')], b"")
        else:
            self._answer(*self._forwarded(body, without=_CONDITIONS if fate is Fate.UNCONDITIONAL else frozenset()))

    def _break(self, fate: Fate, body: bytes) -> None:
        """The client gets no answer, and sooner or later the end of its connection."""
        if fate is Fate.SILENCE:
            with suppress(OSError):
                self.connection.recv(1)
        if fate is Fate.LOSE_ANSWER:
            self._forwarded(body)
        self._hang_up()
        if fate is Fate.LATE:
            time.sleep(_LATE_SECONDS)
            self._forwarded(body)

    def _refuse(self, refusal: Refusal) -> None:
        text = f"<Error><Code>{refusal.code}</Code><Message>{refusal.message}</Message></Error>".encode()
        headers = [("Content-Type", "application/xml"), ("Content-Length", str(len(text))), *refusal.headers]
        self._answer(refusal.status, headers, text)

    def _forwarded(
        self, body: bytes, without: frozenset[str] = frozenset()
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        server = http.client.HTTPConnection(self.proxy.upstream, timeout=_TIMEOUT_SECONDS)
        try:
            server.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in _OF_A_CONNECTION | {"expect"} | without:
                    server.putheader(name, value)
            server.endheaders(body)
            answer = server.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            server.close()

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in _OF_A_CONNECTION:
                self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _hang_up(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
