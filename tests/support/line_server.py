"""A TCP server that sends numbered lines to whoever is connected, each once, and never again to anybody."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence


class LineServer:
    """Lines `<number> <words>` at a steady pace, one connection at a time. `sent`: all that was ever handed to TCP.

    A line that was sent into a connection that breaks is gone: the next one gets what follows.
    """

    def __init__(self, *, lines_per_second: int = 400, words: Sequence[str] = ("sea", "sand", "wind")) -> None:
        self.sent: list[str] = []
        self._words = words
        self._pause_seconds = 0.02
        self._lines_at_once = max(1, round(lines_per_second * self._pause_seconds))
        self._ended = threading.Event()
        self._silent = threading.Event()
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.settimeout(0.05)
        self.port: int = self._server.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)

    def fall_silent(self) -> None:
        """Send nothing more, and keep the connection."""
        self._silent.set()

    def __enter__(self) -> LineServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._server.close()

    def _serve(self) -> None:
        while not self._ended.is_set():
            try:
                connection, _ = self._server.accept()
            except TimeoutError:
                continue
            with connection:
                self._send_to(connection)

    def _send_to(self, connection: socket.socket) -> None:
        connection.settimeout(1)
        while not self._ended.wait(self._pause_seconds):
            if self._silent.is_set():
                continue
            first = len(self.sent)
            lines = [
                f"{number} {self._words[number % len(self._words)]}"
                for number in range(first, first + self._lines_at_once)
            ]
            self.sent += lines
            try:
                connection.sendall("".join(f"{line}\n" for line in lines).encode())
            except OSError:
                return
