"""A TCP server that a test tells what to send."""

from __future__ import annotations

import socket
from contextlib import suppress


class Peer:
    """A server on the loopback that sends what it is told to, to the newest connection."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self.port: int = self._server.getsockname()[1]

    def send(self, data: bytes, within_seconds: float = 30.0) -> None:
        """Send to the newest connection; the first one is waited for."""
        self._server.settimeout(0.05 if self._connections else within_seconds)
        with suppress(TimeoutError):
            self._connections.append(self._server.accept()[0])
        self._connections[-1].sendall(data)

    def was_asked(self) -> bool:
        self._server.settimeout(0.05)
        with suppress(TimeoutError):
            self._connections.append(self._server.accept()[0])
        return bool(self._connections)

    def was_asked_again(self) -> bool:
        """Whether another connection has come since the last look."""
        before = len(self._connections)
        self.was_asked()
        return len(self._connections) > before

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        for each in (*self._connections, self._server):
            each.close()
