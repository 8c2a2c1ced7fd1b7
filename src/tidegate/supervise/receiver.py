"""Receives lines from a TCP server, in a thread of the driver, and passes them on in batches.

Lines that are not passed on block further reading: while the disk is slow, TCP makes the peer wait. A lost connection
is opened again, with a pause that grows while no data comes.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

from tidegate.core.errors import Code, TidegateError
from tidegate.sources.feed_thread import FeedThread
from tidegate.sources.keeping import TOLD_OF_TRIES, keep
from tidegate.supervise.lines import LineCutter, LineTooLong

_LOG = logging.getLogger("tidegate")


@dataclass(frozen=True, slots=True)
class Peer:
    """The server of the lines, the longest allowed line in bytes, and the source's name in messages."""

    host: str
    port: int
    max_line_bytes: int
    where: str

    def __str__(self) -> str:
        return f"{self.where}, {self.host}:{self.port}"


class Receiver(FeedThread):
    """Passes the lines of a peer to `take`, in order, until `close`. `error`: the error that ended it earlier.

    `take` receives the lines of `gather_seconds` and returns once they are stored. While `take` reports a full disk,
    it receives the same lines again and no more data is read. Any other error of `take` ends the receiver.
    """

    def __init__(self, peer: Peer, take: Callable[[Sequence[bytes]], object], gather_seconds: float) -> None:
        super().__init__("tidegate-receiver")
        self._peer = peer
        self._take = take
        self._gather_seconds = gather_seconds
        self._pause_seconds = _PAUSE_SECONDS
        self._tries = 0

    def _feed(self) -> None:
        """After `close` the complete lines that were read are passed on. Unread data and the rest of a line are
        dropped."""
        while (connection := self._connect()) is not None:
            with closing(connection):
                self._receive(connection)

    def _connect(self) -> socket.socket | None:
        """Open a connection, with any number of tries. Returns None after `close`."""
        while not self._closing.is_set():
            try:
                connection = _open(self._peer)
            except OSError as error:
                self._hesitate(f"no connection ({error})")
            else:
                _LOG.info("%s: connected", self._peer)
                return connection
        return None

    def _receive(self, connection: socket.socket) -> None:
        """Read until the connection ends. A last line without a newline counts if the peer has closed in order."""
        cutter = LineCutter(self._peer.max_line_bytes)
        batch = _Batch(self._keep, self._gather_seconds)
        try:
            while not self._closing.is_set():
                data = _read(connection, batch.seconds_left())
                if data == b"":
                    batch.add([cutter.rest()] if cutter.rest() else [])
                    break
                if data is not None:
                    self._tries, self._pause_seconds = 0, _PAUSE_SECONDS
                    batch.add(cutter.feed(data))
                batch.hand_on_if_due()
        except LineTooLong as found:
            batch.add(found.before)
            batch.hand_on()
            raise self._too_long(found) from None
        except OSError as error:
            batch.hand_on()
            self._hesitate(f"the connection broke ({error}); {len(cutter.rest())} bytes of a line are not kept")
        else:
            batch.hand_on()
            if not self._closing.is_set():
                self._hesitate("the peer closed the connection")

    def _keep(self, lines: Sequence[bytes]) -> None:
        """Hand lines on, however long that takes on a full disk."""
        keep(lambda: self._take(lines), str(self._peer), f"{len(lines)} lines", self._closing)

    def _hesitate(self, why: str) -> None:
        """Pause before the next try. The first of several failures is logged, and then one in many."""
        if self._tries % TOLD_OF_TRIES == 0:
            _LOG.warning("%s: %s; trying again", self._peer, why)
        self._tries += 1
        self._closing.wait(self._pause_seconds)
        self._pause_seconds = min(self._pause_seconds * 2, _PAUSE_SECONDS_AT_MOST)

    def _too_long(self, found: LineTooLong) -> TidegateError:
        return TidegateError(
            Code.SOURCE_LINE,
            expected=f"lines of at most {self._peer.max_line_bytes} bytes",
            found=f"one of {found.length} bytes or more",
            where=str(self._peer),
            next_step="raise max_line_bytes= of SocketSource, or see whether the peer sends lines at all; every line"
            " before this one is kept, this one is not",
        )


class _Batch:
    """Lines that were received and not passed on yet. A batch is complete after `gather_seconds` or at its size
    limit."""

    def __init__(self, take: Callable[[Sequence[bytes]], object], gather_seconds: float) -> None:
        self._take = take
        self._gather_seconds = gather_seconds
        self._lines: list[bytes] = []
        self._bytes = 0
        self._due = 0.0

    def add(self, lines: list[bytes]) -> None:
        if lines and not self._lines:
            self._due = time.monotonic() + self._gather_seconds
        self._lines += lines
        self._bytes += sum(map(len, lines)) + len(lines)

    def seconds_left(self) -> float:
        """Time limit of the next read, in seconds."""
        return max(_SHORTEST_SECONDS, self._due - time.monotonic()) if self._lines else _LOOK_SECONDS

    def hand_on_if_due(self) -> None:
        if self._lines and (self._bytes >= _BATCH_BYTES or time.monotonic() >= self._due):
            self.hand_on()

    def hand_on(self) -> None:
        lines, self._lines, self._bytes = self._lines, [], 0
        if lines:
            self._take(lines)


def _open(peer: Peer) -> socket.socket:
    connection = socket.create_connection((peer.host, peer.port), _CONNECT_SECONDS)
    try:
        if connection.getsockname() == connection.getpeername():  # TCP can connect to itself on a port without a server
            raise ConnectionRefusedError("no server")
        _keep_alive(connection)
    except OSError:
        connection.close()
        raise
    return connection


def _read(connection: socket.socket, seconds: float) -> bytes | None:
    """The received bytes; b"" at the end of the connection; None if no data came in this time."""
    connection.settimeout(seconds)
    try:
        return connection.recv(_READ_BYTES)
    except TimeoutError:
        return None


def _keep_alive(connection: socket.socket) -> None:
    """Notice within minutes that a peer is gone without closing."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


_BATCH_BYTES = 1 << 20
_READ_BYTES = 1 << 18
_SHORTEST_SECONDS = 0.0005
_LOOK_SECONDS = 0.1
_CONNECT_SECONDS = 5.0
_PAUSE_SECONDS = 0.1
_PAUSE_SECONDS_AT_MOST = 5.0
