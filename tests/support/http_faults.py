"""A proxy in front of an HTTP server that loses requests and answers, or answers itself.

with HttpFaults(s3.endpoint) as faults:
    faults.next(Fate.LOSE_ANSWER, "PUT")
    ...  # the client connects to `faults.endpoint`
"""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import urlsplit

_TIMEOUT_SECONDS = 30.0
_LATE_SECONDS = 0.6
_OF_A_CONNECTION = frozenset({"connection", "keep-alive", "transfer-encoding"})


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


UNANSWERED = [each for each in Fate if each not in (Fate.PASS, Fate.PRETEND, Fate.LATE)]
"""The fates after which a client does not know what has become of its request."""

_STATUS = {
    Fate.FAIL_AFTER: (500, "InternalError"),
    Fate.ERROR: (500, "InternalError"),
    Fate.SLOW_DOWN: (503, "SlowDown"),
}


class HttpFaults:
    """Listens on loopback; passes everything until it is told otherwise. Counts the requests by method. Port 0: any."""

    def __init__(self, endpoint: str, port: int = 0) -> None:
        self.upstream = urlsplit(endpoint).netloc
        self.seen: Counter[str] = Counter()
        self._fate_of: Callable[[str], Fate] = lambda _: Fate.PASS
        self._lock = threading.Lock()
        faults = self

        class Handler(_Handler):
            proxy = faults

        self._server = _QuietServer(("127.0.0.1", port), Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def each(self, fate_of: Callable[[str], Fate]) -> None:
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

    def judge(self, method: str) -> Fate:
        with self._lock:
            self.seen[method] += 1
            return self._fate_of(method)

    def __enter__(self) -> HttpFaults:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), name="http-faults", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


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
        if fate is Fate.LOSE_REQUEST:
            self._hang_up()
            return
        if fate is Fate.LATE:
            self._hang_up()
            time.sleep(_LATE_SECONDS)
            self._forwarded(body)
            return
        answer = None if fate in (Fate.ERROR, Fate.SLOW_DOWN, Fate.PRETEND) else self._forwarded(body)
        if fate is Fate.LOSE_ANSWER:
            self._hang_up()
        elif fate is Fate.PASS and answer is not None:
            self._answer(*answer)
        elif fate is Fate.PRETEND:
            self._answer(200, [("Content-Length", "0"), ("ETag", '"none"')], b"")
        else:
            status, code = _STATUS[fate]
            text = f"<Error><Code>{code}</Code><Message>as the test wants it</Message></Error>".encode()
            self._answer(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(text)))], text)

    def _forwarded(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        server = http.client.HTTPConnection(self.proxy.upstream, timeout=_TIMEOUT_SECONDS)
        try:
            server.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in _OF_A_CONNECTION | {"expect"}:
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
