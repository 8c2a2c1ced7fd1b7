"""Lines from a connection: cut right wherever the bytes are split, handed on together, and never twice."""

from __future__ import annotations

import errno
import logging
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.errors import Code, TidegateError
from tidegate.disk.durable import SyncFailed, storage_error
from tidegate.sources import keeping
from tidegate.supervise.lines import LineCutter, LineTooLong
from tidegate.supervise.receiver import Peer, Receiver


@given(st.lists(st.sampled_from([b"a", b"\n", b"sea", b"\r\n", b"\xff"]), max_size=20), st.data())
def test_wherever_the_bytes_are_split_the_lines_are_the_same(parts: list[bytes], data: st.DataObject):
    whole = b"".join(parts)
    cutter = LineCutter(100)
    lines: list[bytes] = []
    while whole:
        size = data.draw(st.integers(1, len(whole)))
        lines += cutter.feed(whole[:size])
        whole = whole[size:]
    assert [*lines, cutter.rest()] == b"".join(parts).split(b"\n")


@pytest.mark.parametrize(
    "sent", [b"one\ntwo\n12345678901\nlast\n", b"one\ntwo\n12345678901", b"one\ntwo\n1234567890123"]
)
def test_a_line_that_is_too_long_is_told_with_the_lines_before_it(sent: bytes):
    with pytest.raises(LineTooLong) as caught:
        LineCutter(10).feed(sent)
    assert caught.value.before == [b"one", b"two"]
    assert caught.value.length >= 11


def test_a_line_as_long_as_the_limit_is_taken():
    assert LineCutter(10).feed(b"1234567890\n") == [b"1234567890"]


def test_lines_arrive_in_order_and_a_last_one_without_a_newline_counts_when_the_peer_closes():
    with Listening() as peer, Taken(peer.port) as taken:
        with peer.connection() as connection:
            connection.sendall(b"one\ntwo\nthr")
            taken.wait_for(2)
            connection.sendall(b"ee\nfour")
        taken.wait_for(4)
        assert taken.lines == [b"one", b"two", b"three", b"four"]


def test_many_lines_are_handed_on_together():
    with Listening() as peer, Taken(peer.port) as taken, peer.connection() as connection:
        connection.sendall(b"line\n" * 100_000)
        taken.wait_for(100_000)
        assert taken.calls < 200


def test_after_the_peer_has_closed_it_connects_again():
    with Listening() as peer, Taken(peer.port) as taken:
        for number in range(3):
            with peer.connection() as connection:
                connection.sendall(b"%d\n" % number)
        taken.wait_for(3)
        assert taken.lines == [b"0", b"1", b"2"]


def test_a_broken_connection_loses_the_line_that_was_cut_off_and_says_so(caplog: pytest.LogCaptureFixture):
    with Listening() as peer, Taken(peer.port) as taken, caplog.at_level(logging.WARNING, "tidegate"):
        with peer.connection() as connection:
            connection.sendall(b"whole\ncut o")
            taken.wait_for(1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # close by a reset
        with peer.connection() as connection:
            connection.sendall(b"next\n")
            taken.wait_for(2)
        assert taken.lines == [b"whole", b"next"]
    assert "5 bytes of a line are not kept" in caplog.text


def test_a_peer_that_is_not_there_yet_is_waited_for():
    with Listening() as peer:
        port = peer.port
    with Taken(port) as taken:
        wait_for(lambda: taken.receiver._tries > 0, "a try")
        with Listening(port) as peer, peer.connection() as connection:
            connection.sendall(b"sea\n")
            taken.wait_for(1)


def test_a_line_that_is_too_long_ends_it_with_all_lines_before_kept():
    with Listening() as peer, Taken(peer.port) as taken, peer.connection() as connection:
        connection.sendall(b"one\ntwo\n" + b"x" * 2000)
        error = taken.error()
        assert taken.lines == [b"one", b"two"]
    assert isinstance(error, TidegateError)
    assert error.catalogue_entry is Code.SOURCE_LINE
    assert "at most 1000 bytes" in error.expected
    assert "max_line_bytes" in error.next_step


def test_what_cannot_be_kept_ends_it_and_nothing_more_is_read():
    def full(lines: Sequence[bytes]) -> None:
        raise ValueError("full")

    with Listening() as peer, Taken(peer.port, full) as taken, peer.connection() as connection:
        connection.sendall(b"sea\n")
        assert str(taken.error()) == "full"
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            send_much(connection, b"more\n" * 1000)


def test_on_a_full_disk_the_peer_is_held_up_and_every_line_comes_once_when_there_is_space(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(keeping, "_SPACE_SECONDS", 0.01)
    space = threading.Event()
    kept: list[bytes] = []

    def take(lines: Sequence[bytes]) -> None:
        if not space.is_set():
            raise storage_error(OSError(errno.ENOSPC, "No space left on device"), Path("log"), "append")
        kept.extend(lines)

    sent = [b"%d %s" % (number, b"x" * 99_000) for number in range(200)]
    with Listening() as peer, Taken(peer.port, take) as taken, peer.connection() as connection:
        sender = threading.Thread(target=connection.sendall, args=(b"\n".join([*sent, b""]),))
        sender.start()
        sender.join(0.5)
        assert sender.is_alive(), "held up"
        assert taken.receiver.error is None
        space.set()
        sender.join(20)
        wait_for(lambda: len(kept) >= len(sent), "all lines")
    assert kept == sent


def test_on_a_full_disk_the_end_waits_for_no_space_and_says_what_is_not_kept(caplog: pytest.LogCaptureFixture):
    def full(lines: Sequence[bytes]) -> None:
        raise storage_error(OSError(errno.ENOSPC, "No space left on device"), Path("log"), "append")

    with Listening() as peer, Taken(peer.port, full) as taken, peer.connection() as connection:
        connection.sendall(b"one\ntwo\n")
        wait_for(lambda: "nothing more is read" in caplog.text, "a warning")
        taken.receiver.close()
    assert "2 lines that were read are not kept" in caplog.text


def test_after_a_sync_that_failed_nobody_waits_for_space():
    def unsynced(lines: Sequence[bytes]) -> None:
        raise SyncFailed(OSError(errno.ENOSPC, "No space left on device"), "log")

    with Listening() as peer, Taken(peer.port, unsynced) as taken, peer.connection() as connection:
        connection.sendall(b"one\n")
        wait_for(lambda: taken.receiver.error is not None, "the end of the receiver")


def test_while_lines_are_being_kept_nothing_is_read_and_the_peer_is_held_up():
    go_on = threading.Event()
    with Listening() as peer, Taken(peer.port, lambda lines: go_on.wait()) as taken, peer.connection() as connection:
        connection.settimeout(0.5)
        with pytest.raises(TimeoutError):
            send_much(connection, b"x" * 99_999 + b"\n")
        go_on.set()
        del taken


def test_closing_hands_on_whole_lines_and_drops_the_beginning_of_one():
    with Listening() as peer, Taken(peer.port) as taken, peer.connection() as connection:
        connection.sendall(b"one\ntwo\nthr")
        taken.wait_for(2)
        taken.receiver.close()
        assert taken.lines == [b"one", b"two"]
        assert taken.receiver.error is None


def send_much(connection: socket.socket, data: bytes) -> None:
    for _ in range(10_000):
        connection.sendall(data)


class Listening:
    """A server on the loopback, asked for one connection after the other."""

    def __init__(self, port: int = 0) -> None:
        self._server = socket.create_server(("127.0.0.1", port))
        self._server.settimeout(20)
        self.port: int = self._server.getsockname()[1]

    def connection(self) -> closing[socket.socket]:
        return closing(self._server.accept()[0])

    def __enter__(self) -> Listening:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()


class Taken:
    """A receiver, and what it has handed on."""

    def __init__(self, port: int, take: Callable[[Sequence[bytes]], object] | None = None) -> None:
        self.lines: list[bytes] = []
        self.calls = 0
        peer = Peer("127.0.0.1", port, 100_000 if take else 1000, "source lines")
        self.receiver = Receiver(peer, take or self._take, gather_seconds=0.003)

    def wait_for(self, count: int) -> None:
        wait_for(lambda: len(self.lines) >= count, f"{count} lines")

    def error(self) -> Exception | None:
        wait_for(lambda: self.receiver.error is not None, "an error")
        return self.receiver.error

    def _take(self, lines: Sequence[bytes]) -> None:
        self.lines += lines
        self.calls += 1

    def __enter__(self) -> Taken:
        self.receiver.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.receiver.close()


def wait_for(seen: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 20
    while not seen():
        assert time.monotonic() < end, f"not seen: {what}"
        time.sleep(0.001)
