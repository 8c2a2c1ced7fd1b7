"""Calls of `hdfs-native` with deadlines, retries, and failures of a closed set.

`hdfs-native` waits without an end for a NameNode that accepts a connection and is silent. Here every call runs in one
thread of asyncio, so that it can be given up. A call that was given up, or whose connection broke, may still be carried
out later: what follows from that is for the caller (see `publish.py`).
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from tidegate.extras import Extra, require
from tidegate.storages.hdfs.calls import call
from tidegate.storages.hdfs.configuration import name_node_address, name_nodes, name_nodes_from
from tidegate.storages.hdfs.connections import HdfsConnection, HdfsConnections, OpenHdfsFile
from tidegate.storages.hdfs.failures import RETRIED, UNREACHED, HdfsFailure, Trouble, failure_of
from tidegate.storages.schemes import Folder

if TYPE_CHECKING:
    from hdfs_native import AsyncClient, AsyncFileReader, AsyncFileWriter, FileStatus

FileT = TypeVar("FileT")
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Waits:
    """How long to wait. `call_seconds`: for the answer to one request. `transfer_seconds`: for one block of data.
    `first_seconds`, `total_seconds`: for retries of one operation, before and after the first answer of the NameNode: a
    wrong address is reported soon, a restart of the NameNode is waited for.
    """

    call_seconds: float = 20.0
    transfer_seconds: float = 60.0
    first_seconds: float = 10.0
    total_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class NameEntry:
    """What the NameNode knows of a file or folder. `written_at`: seconds since 1970 by its clock."""

    name: str
    is_folder: bool
    size_bytes: int
    written_at: float
    block_size: int


class Tries:
    """The retries of one operation: longer and longer pauses, until the time is over.

    The longest try is not counted: one call may be lost without a word, and its wait be all of the time.
    """

    def __init__(self, seconds: float) -> None:
        self._begun = time.monotonic()
        self._end = self._begun + seconds
        self._longest = 0.0
        self._pause = _FIRST_PAUSE_SECONDS

    def again(self, failure: HdfsFailure) -> bool:
        """Wait, and return True, if the operation is to be tried once more after this failure."""
        failed = time.monotonic()
        self._longest = max(self._longest, failed - self._begun)
        left = self._end + self._longest - failed
        if failure.trouble not in RETRIED or left < _SHORTEST_PAUSE_SECONDS:
            return False
        time.sleep(min(self._pause, left))
        self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)
        self._begun = time.monotonic()
        return True


class HdfsClient:
    """The client of one HDFS, for all threads of a process. Paths are absolute. Every method raises HdfsFailure."""

    def __init__(self, scheme: str, authority: str, waits: Waits) -> None:
        require(Extra.HDFS)
        from hdfs_native import AsyncClient, WriteOptions

        self._waits = waits
        self._options = WriteOptions
        self._has_answered = False
        self._own: OrderedDict[str, None] = OrderedDict()
        self._left: list[str] = []
        self._lock = threading.Lock()
        self.close_seconds = 0.0
        address = name_node_address(authority) if scheme == _HDFS else authority
        settings = {
            # Each NameNode once. Before another round the asynchronous client panics: it sleeps without a timer.
            "dfs.client.failover.max.attempts": str(name_nodes(address) - 1),
            "dfs.client.socket-timeout": str(int(waits.call_seconds * 1000)),
        }
        self._has_one = name_nodes(address) == 1  # of several one may have broken off before another was unreachable
        try:
            self._connections = HdfsConnections(
                lambda first: AsyncClient(f"{scheme}://{address}", {**settings, **name_nodes_from(first)})
            )
        except (OSError, RuntimeError) as error:
            raise failure_of(error) from error

    # --- names -----------------------------------------------------------------------------------------------

    def status(self, path: str, *, tries: Tries | None = None) -> NameEntry | None:
        """None if there is nothing of this name."""

        async def look(client: AsyncClient) -> NameEntry:
            return _status(await client.get_file_info(path))

        return self.absent_as_none(lambda: self.patient(look, tries=tries))

    def children(self, folder: str) -> list[NameEntry] | None:
        """All files and folders directly in a folder; None if it is absent, or a file."""

        async def listed(client: AsyncClient) -> list[tuple[str, NameEntry]]:
            return [(each.path, _status(each)) async for each in client.list_status(folder)]

        found = self.absent_as_none(lambda: self.patient(listed))
        if found is None or any(path.rstrip("/") == folder.rstrip("/") for path, _ in found):
            return None
        return [status for _, status in found]

    def rename(self, path: str, target: str, *, overwrite: bool) -> None:
        """One try: whether a failure means that the name has changed is for the caller."""

        async def rename(client: AsyncClient) -> None:
            await client.rename(path, target, overwrite)

        self.once(rename)

    def delete(self, path: str, *, recursive: bool = False, tries: Tries | None = None) -> None:
        """Remove a file, or an empty folder, or with `recursive` a folder with all below it, in one step of the
        NameNode. No error if it is absent.
        """

        async def delete(client: AsyncClient) -> None:
            await client.delete(path, recursive)

        self.forget_own(path)
        self.absent_as_none(lambda: self.patient(delete, tries=tries))

    def make_folder(self, folder: str) -> None:
        """Create a folder and those above it; no error if it is there."""

        async def make(client: AsyncClient) -> None:
            await client.mkdirs(folder, _FOLDER_MODE, create_parent=True)

        self.patient(make)

    def log_edit(self, folder: str) -> None:
        """Make every change of names durable that this process has seen so far.

        A NameNode shows a new name before its own log of edits is on disk. It answers an edit only when the log is on
        disk up to that edit, with all earlier ones. The smallest edit is the time of a folder. A NameNode that enters
        safe mode has written its log. A user who may not write there only reads, and then nothing is proven durable.
        """

        async def edit(client: AsyncClient) -> None:
            await client.set_times(folder, int(time.time() * 1000), _UNCHANGED)

        tries = self.tries()
        while True:
            try:
                return self.once(edit)
            except HdfsFailure as failure:
                if failure.trouble in (Trouble.SAFE_MODE, Trouble.RIGHTS, Trouble.ABSENT):
                    return None
                if not tries.again(failure):
                    raise

    # --- files -----------------------------------------------------------------------------------------------

    def read(self, path: str) -> bytes | None:
        """All of a file; None if it is absent."""

        async def read(file: AsyncFileReader) -> bytes:
            return await file.read_range(0, len(file))

        return self._read(path, read)

    def ends(self, path: str, count: int) -> bytes | None:
        """The first and the last `count` bytes of a file, or all of a shorter one; None if it is absent."""

        async def read(file: AsyncFileReader) -> bytes:
            size = len(file)
            begin = await file.read_range(0, min(size, count))
            rest = min(count, size - len(begin))
            return begin + (await file.read_range(size - rest, rest) if rest else b"")

        return self._read(path, read)

    def open(self, path: str) -> OpenHdfsFile[AsyncFileReader] | None:
        """A file to read in parts; None if it is absent."""
        tries = self.tries()
        return self.absent_as_none(lambda: self._patient(lambda: self._reader(path), tries))

    def _read(self, path: str, act: Callable[[AsyncFileReader], Coroutine[Any, Any, bytes]]) -> bytes | None:
        """Open a file and read of it: the NameNode has one deadline, the data another. None if it is absent."""

        def once() -> bytes:
            file = self._reader(path)
            try:
                return file.transfer(act)
            finally:
                file.end()

        tries = self.tries()
        return self.absent_as_none(lambda: self._patient(once, tries))

    def _reader(self, path: str) -> OpenHdfsFile[AsyncFileReader]:
        async def opened(client: AsyncClient) -> AsyncFileReader:
            return await client.read(path)

        return self._opened(opened)

    def create(self, path: str, block_size: int) -> OpenHdfsFile[AsyncFileWriter]:
        """A new file, and the folders above it. One try."""

        async def created(client: AsyncClient) -> AsyncFileWriter:
            return await client.create(path, self._options(block_size=block_size))

        return self._opened(created)

    def _opened(self, act: Callable[[AsyncClient], Coroutine[Any, Any, FileT]]) -> OpenHdfsFile[FileT]:
        connection = self._connections.take()
        try:
            file = self._on(connection, act, self._waits.call_seconds)
        except BaseException:
            self._connections.give_back(connection)
            raise

        def transfer(act: Callable[[AsyncClient], Coroutine[Any, Any, ResultT]]) -> ResultT:
            return self._on(connection, act, self._waits.transfer_seconds)

        return OpenHdfsFile(file, transfer, lambda: self._connections.give_back(connection))

    # --- what this process has written -----------------------------------------------------------------------

    def remember_own(self, path: str) -> None:
        """This process has made the file durable under this name: to read it needs no `log_edit`."""
        with self._lock:
            self._own[path] = None
            while len(self._own) > _OWN_AT_MOST:
                self._own.popitem(last=False)

    def forget_own(self, path: str) -> None:
        with self._lock:
            self._own.pop(path, None)

    def is_own(self, path: str) -> bool:
        with self._lock:
            return path in self._own

    def leave(self, path: str) -> None:
        """A hidden file of this process could not be removed: `take_left` returns it later."""
        with self._lock:
            self._left.append(path)

    def take_left(self) -> list[str]:
        """The hidden files to remove now, each to one caller."""
        with self._lock:
            left, self._left = self._left, []
        return left

    # --- calls -----------------------------------------------------------------------------------------------

    def tries(self) -> Tries:
        """For one operation."""
        return Tries(self._waits.total_seconds if self._has_answered else self._waits.first_seconds)

    def patient(
        self,
        act: Callable[[AsyncClient], Coroutine[Any, Any, ResultT]],
        seconds: float | None = None,
        tries: Tries | None = None,
    ) -> ResultT:
        """Run a call that may be repeated, until it succeeds or its time is over: that of `tries`, where it is a part
        of a longer operation.
        """
        return self._patient(lambda: self.once(act, seconds), tries or self.tries())

    def once(self, act: Callable[[AsyncClient], Coroutine[Any, Any, ResultT]], seconds: float | None = None) -> ResultT:
        """Run a call once, with a deadline."""
        with self._connections.taken() as connection:
            return self._on(connection, act, self._waits.call_seconds if seconds is None else seconds)

    def _patient(self, act: Callable[[], ResultT], tries: Tries) -> ResultT:
        while True:
            try:
                return act()
            except HdfsFailure as failure:
                if not tries.again(failure):
                    if failure.trouble in _UNANSWERED:
                        self._has_answered = False  # so the next operations wait as briefly as the first one
                    raise

    def _on(
        self, connection: HdfsConnection, act: Callable[[AsyncClient], Coroutine[Any, Any, ResultT]], seconds: float
    ) -> ResultT:
        """Run a call once on a connection that the caller has for itself."""
        is_heard = False
        try:
            result = call(lambda: act(connection.client), seconds)
            is_heard = self._has_answered = True
        except asyncio.TimeoutError:
            if not self._has_one:
                self._connections.pass_over(connection)
            raise HdfsFailure(Trouble.AWAY, f"no answer after {seconds:.0f} s") from None
        except (OSError, RuntimeError) as error:
            failure = failure_of(error)
            is_heard = failure.trouble not in _BROKEN_OFF and (failure.trouble not in UNREACHED or self._has_one)
            self._has_answered = self._has_answered or failure.trouble not in _UNANSWERED
            raise failure from error
        except BaseException as error:
            if type(error).__name__ != _PANIC:
                raise
            raise HdfsFailure(Trouble.AWAY, f"hdfs-native panicked: {error}") from error
        finally:
            connection.is_left = connection.is_left or not is_heard
        return result

    def absent_as_none(self, act: Callable[[], ResultT]) -> ResultT | None:
        try:
            return act()
        except HdfsFailure as failure:
            if failure.trouble is Trouble.ABSENT:
                return None
            raise


def client_of(folder: Folder, waits: Waits) -> HdfsClient:
    """The client for the HDFS of a folder: one a process, address and user."""
    environment = tuple(os.environ.get(name) for name in _ENVIRONMENT)
    key = (os.getpid(), folder.scheme.value, folder.authority, waits, environment)
    with _lock:
        client = _clients.get(key)
        if client is None:
            client = _clients[key] = HdfsClient(folder.scheme.value, folder.authority, waits)
    return client


_HDFS = "hdfs"
_PANIC = "PanicException"  # of a mount table over name services of one and of more NameNodes; it cannot be imported
_UNCHANGED = (1 << 64) - 1  # -1 for the NameNode: leaves the time of the last access as it is
_FOLDER_MODE = 0o755
_SHORTEST_PAUSE_SECONDS = 0.001
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 2.0
_OWN_AT_MOST = 10_000
_BROKEN_OFF = frozenset({Trouble.AWAY, Trouble.STANDBY})
"""After these the connection to a NameNode may have broken off: to an active one before a standby was asked."""
_UNANSWERED = UNREACHED | _BROKEN_OFF
_ENVIRONMENT = ("HADOOP_USER_NAME", "HADOOP_PROXY_USER", "HADOOP_CONF_DIR", "HADOOP_HOME")

_lock = threading.Lock()
_clients: dict[object, HdfsClient] = {}
"""Never removed: a forked process must not end a client of its parent, whose threads it does not have."""


def _status(status: FileStatus) -> NameEntry:
    return NameEntry(
        name=status.path.rpartition("/")[2],
        is_folder=status.isdir,
        size_bytes=status.length,
        written_at=status.modification_time / 1000,
        block_size=status.blocksize or 0,
    )
