"""A proxy of TCP in front of a server on loopback, which loses single requests or their answers.

    with Proxy(server_port) as proxy:
        lost = proxy.lose_answer(b"rename2")
        ...  # a client of `proxy.port`: the server carries the request out, and the connection breaks
        assert lost.struck == 1

A rule looks for bytes in what a client sends: the name of a method, the first line of an HTTP request.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from types import TracebackType

_LARGEST_READ = 1 << 16
_ANSWER_SECONDS = 30.0


class Loss(Enum):
    """What a rule does to a request."""

    REQUEST = auto()
    """The connection breaks before the server has the request."""
    ANSWER = auto()
    """The server has answered, and the connection breaks before the client has the answer."""
    SILENCE = auto()
    """The server never has the request, and the connection stays open."""


@dataclass(slots=True)
class Rule:
    """Acts on `left` more requests that contain `part`. `before`: called first, in the thread of the connection."""

    loss: Loss
    part: bytes
    left: int
    before: Callable[[], object]
    struck: int = 0


class Proxy:
    """Listens on loopback as long as it is open as a context manager."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._lock = threading.Lock()
        self._rules: list[Rule] = []
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def lose_request(self, part: bytes, *, count: int = 1, before: Callable[[], object] = lambda: None) -> Rule:
        return self._add(Rule(Loss.REQUEST, part, count, before))

    def lose_answer(self, part: bytes, *, count: int = 1, before: Callable[[], object] = lambda: None) -> Rule:
        return self._add(Rule(Loss.ANSWER, part, count, before))

    def swallow(self, part: bytes, *, count: int = 1, before: Callable[[], object] = lambda: None) -> Rule:
        return self._add(Rule(Loss.SILENCE, part, count, before))

    def __enter__(self) -> Proxy:
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._lock:
            ended = [self._listener, *self._open]
        for each in ended:
            _end(each)

    def _add(self, rule: Rule) -> Rule:
        with self._lock:
            self._rules.append(rule)
        return rule

    def _struck_by(self, request: bytes) -> Rule | None:
        with self._lock:
            for rule in self._rules:
                if rule.left > 0 and rule.part in request:
                    rule.left -= 1
                    rule.struck += 1
                    return rule
        return None

    def _accept(self) -> None:
        with suppress(OSError):  # the listener was closed
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), name="proxy", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.socket()
        with self._lock:
            self._open |= {client, server}
        try:
            server.connect(("127.0.0.1", self._server_port))
            answer = _Answer()
            threading.Thread(target=_copy, args=(server, client, answer), name="proxy", daemon=True).start()
            self._forward(client, server, answer)
        except OSError:  # one of the two has ended
            pass
        finally:
            _end(client)
            _end(server)
            with self._lock:
                self._open -= {client, server}

    def _forward(self, client: socket.socket, server: socket.socket, answer: _Answer) -> None:
        """Until a side ends, or a rule has broken the connection."""
        while request := client.recv(_LARGEST_READ):
            rule = self._struck_by(request)
            if rule is None:
                server.sendall(request)
                continue
            rule.before()
            match rule.loss:
                case Loss.REQUEST:
                    return
                case Loss.ANSWER:
                    answer.is_unwanted.set()
                    server.sendall(request)
                    answer.has_come.wait(_ANSWER_SECONDS)
                    return
                case Loss.SILENCE:
                    continue


class _Answer:
    """The next answer on a connection."""

    def __init__(self) -> None:
        self.is_unwanted = threading.Event()
        self.has_come = threading.Event()


def _copy(server: socket.socket, client: socket.socket, expected: _Answer) -> None:
    """Answers to the client, until one is unwanted."""
    with suppress(OSError):
        while answer := server.recv(_LARGEST_READ):
            if expected.is_unwanted.is_set():
                expected.has_come.set()
                return
            client.sendall(answer)
    _end(client)


def _end(side: socket.socket) -> None:
    with suppress(OSError):
        side.shutdown(socket.SHUT_RDWR)
    side.close()
