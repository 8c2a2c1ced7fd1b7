"""The clients of `hdfs-native` that a process has for one HDFS. Each serves one call, or one open file, at a time.

**Why one at a time.** Python's lock is held while a call of `hdfs-native` begins, and a call begins by taking the lock
of its connection. When a connection breaks, a thread of `hdfs-native` takes the lock of the connection and tells all
waiting calls, for which it needs Python's lock. So a call that begins on a connection that is breaking stops the whole
process for ever. Here a call that begins has a connection without any other call. And a connection on which a call
was left without the server's answer is not used again.

**A silent NameNode of several.** A client asks its NameNodes in an order of its own, and waits for each without an end:
while one is silent, for example because its machine has lost its power, the client never asks the next one. So after
a call that was given up all further calls take a connection whose client begins with the next NameNode.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from hdfs_native import AsyncClient

FileT = TypeVar("FileT")
ResultT = TypeVar("ResultT")


@dataclass(slots=True, eq=False)
class HdfsConnection:
    """A client with one connection. `first`: the place of the NameNode that it asks first, in the order of the
    configuration, counted on behind the last one. `is_left`: a call on it got no answer.
    """

    client: AsyncClient
    first: int
    is_left: bool = False


class HdfsConnections:
    """Connections that are made when they are needed. For all threads.

    None is ever removed: the end of a client waits, with Python's lock held, for threads that may want that lock. So
    there are as many as there are calls at once, and one more for each call that was left without an answer.
    """

    def __init__(self, connect: Callable[[int], AsyncClient]) -> None:
        """`connect`: the client that asks this NameNode first."""
        self._connect = connect
        self._lock = threading.Lock()
        self._first = 0
        self._idle = [HdfsConnection(connect(0), 0)]
        self._all = [*self._idle]

    def take(self) -> HdfsConnection:
        """A connection for the caller alone."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
            first = self._first
        connection = HdfsConnection(self._connect(first), first)
        with self._lock:
            self._all.append(connection)
        return connection

    def give_back(self, connection: HdfsConnection) -> None:
        """No call is running on it any more."""
        with self._lock:
            if not connection.is_left and connection.first == self._first:
                self._idle.append(connection)

    def pass_over(self, connection: HdfsConnection) -> None:
        """A NameNode was silent: from now on begin with the one behind the first one of this connection. Calls that
        were given up at the same time pass over one NameNode, not over several.
        """
        with self._lock:
            if connection.first == self._first:
                self._first += 1
                self._idle.clear()

    @contextmanager
    def taken(self) -> Generator[HdfsConnection, None, None]:
        """A connection for the body alone."""
        connection = self.take()
        try:
            yield connection
        finally:
            self.give_back(connection)


class OnConnection(Protocol):
    """Runs a call once on one connection. Raises HdfsFailure."""

    def __call__(self, act: Callable[[AsyncClient], Coroutine[Any, Any, ResultT]], /) -> ResultT: ...


class OpenHdfsFile(Generic[FileT]):
    """An open file, with a connection of its own until `end`."""

    def __init__(self, file: FileT, on_connection: OnConnection, give_back: Callable[[], None]) -> None:
        self.file = file
        self._on_connection = on_connection
        self._give_back = give_back
        self._has_ended = False

    def transfer(self, act: Callable[[FileT], Coroutine[Any, Any, ResultT]]) -> ResultT:
        """Run a call that moves data, once. Raises HdfsFailure."""
        return self._on_connection(lambda _: act(self.file))

    def end(self) -> None:
        """Give the connection back. May be called again."""
        if not self._has_ended:
            self._has_ended = True
            self._give_back()
