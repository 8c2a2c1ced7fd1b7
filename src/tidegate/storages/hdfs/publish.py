"""How a file gets its name on HDFS: whole, durable, and once.

A file is written under a hidden name that only its writer knows, synced on every DataNode of its pipeline, closed, and
renamed. A create-if-absent under its own name would do none of that: a writer that dies leaves a visible file with a
part of the content. A file that is still open reads as empty or short; such a file has a hidden name only.

**The answer to a rename is a hint.** When a call breaks off, the NameNode may have carried it out, or may do so later.
So the writer looks at the target, and repeats the rename while there is none: of two renames of one hidden file the
second finds nothing. Where another's record is there, the hidden file is removed, so that a late rename has no effect.
"The hidden file is gone" is no proof of success: another driver, which took this one for dead, may have swept it. Nor
is the content: two drivers can write the same bytes, and each must know whether its own put came first.

**The writer's token is the block size.** A file on HDFS carries its block size for life, the client chooses it, and it
comes with every status. Here it is 64 MiB and 26 random bits. It costs no request, needs no setting of the cluster, and
changes nothing for a record, which is smaller than one block. A put is ours if the target has our token and our
content. What was considered and not used: times (a cluster can have access times switched off; the time of change is
for display), an ACL entry or an extended attribute (off on some clusters, absent from the client), and a token in the
content (Spark reads the entries of its log, which are records too, with exactly its own bytes).

**Closing.** `complete` fails until the DataNode's report of the block has arrived, which takes a few milliseconds;
`hdfs-native` then sleeps for 500 ms (the JVM's client 400 ms). So the close is given up after a moment and called
again: the second call sends `complete` at once. A close that was given up too early, before the last packet was
acknowledged, never completes: the hidden file is removed, written once more, and the next close gets more time.
"""

from __future__ import annotations

import asyncio
import io
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.storages.hdfs.client import HdfsClient, Tries
from tidegate.storages.hdfs.connections import OpenHdfsFile
from tidegate.storages.hdfs.failures import HdfsFailure, Trouble

if TYPE_CHECKING:
    from hdfs_native import AsyncFileWriter
    from typing_extensions import Buffer

TEMPORARY_SUFFIX = ".tidegate.tmp"


def is_temporary(name: str) -> bool:
    """True for the hidden name of a file that is being written, or was left by a killed process."""
    return name.startswith(".") and name.endswith(TEMPORARY_SUFFIX)


def put(client: HdfsClient, target: str, data: bytes) -> bool:
    """Create `target` with `data` unless it exists. True if this call created it."""
    tries = client.tries()
    while True:
        hidden = _written(client, target, data, tries, is_synced=True)
        try:
            is_ours = _named(client, hidden, target, data, tries)
        except HdfsFailure as failure:
            if not tries.again(_curable(failure)):
                raise
        else:
            if is_ours:
                client.remember_own(target)
            _remove_left(client)
            return is_ours


def replace(client: HdfsClient, target: str, data: bytes, *, is_synced: bool) -> None:
    """Replace the content of `target` by `data`."""
    tries = client.tries()
    while True:
        hidden = _written(client, target, data, tries, is_synced=is_synced)
        try:
            _named_over(client, hidden, target, tries)
        except HdfsFailure as failure:
            if not tries.again(_curable(failure)):
                raise
        else:
            client.remember_own(target)
            _remove_left(client)
            return


class NewFile(io.RawIOBase):
    """A file that is written in parts, and gets its name when it is whole and durable. In one thread.

    A small file is kept in memory until then, so that an interrupted write can be repeated. Of a larger one an
    interrupted write is a failure. Every method but `abandon` raises HdfsFailure.
    """

    def __init__(self, client: HdfsClient, target: str) -> None:
        self._client = client
        self._target = target
        self._kept = bytearray()
        self._hidden = _Hidden.of(target)
        self._blocks: _Blocks | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        view = memoryview(data).cast("B")
        self._kept += view
        if len(self._kept) > (_KEPT_BYTES if self._blocks is None else _WRITTEN_BYTES):
            self._send()
        return len(view)

    def publish(self) -> bool:
        """Give the file its name. False if that name exists: then nothing is changed."""
        if self._blocks is None:
            return put(self._client, self._target, bytes(self._kept))
        self._send()
        # No close that is given up: one that was given up too early would cost the whole file.
        self._blocks.open_file.transfer(lambda file: file.hsync())
        self._blocks.open_file.transfer(lambda file: file.close())
        self._blocks.open_file.end()
        return _named(self._client, self._hidden, self._target, None, self._client.tries())

    def abandon(self) -> None:
        """Remove what was written, unless it has its name. What cannot be removed is hidden."""
        self._kept.clear()
        if self._blocks is not None:
            self._blocks.open_file.end()
            self._blocks = None
            _try_to_remove(self._client, self._hidden.path)

    def _send(self) -> None:
        if self._blocks is None:
            self._blocks = _Blocks(self._client.create(self._hidden.path, self._hidden.token), self._hidden.token)
        kept = bytes(self._kept)
        self._kept.clear()
        self._blocks.write(kept)


@dataclass(frozen=True, slots=True)
class _Hidden:
    """The path of a hidden file, and its writer's token."""

    path: str
    token: int

    @classmethod
    def of(cls, target: str) -> _Hidden:
        folder, _, name = target.rpartition("/")
        path = f"{folder}/.{name}.{secrets.token_hex(4)}{TEMPORARY_SUFFIX}"
        return cls(path, _SMALLEST_BLOCK + secrets.randbelow(_TOKENS))


def _written(client: HdfsClient, target: str, data: bytes, tries: Tries, *, is_synced: bool) -> _Hidden:
    """A hidden file with `data`, closed. Every try has a name of its own."""
    while True:
        hidden = _Hidden.of(target)
        try:
            open_file = client.create(hidden.path, hidden.token)
            try:
                _Blocks(open_file, hidden.token).write(data)
                _finish(client, open_file, is_synced=is_synced and bool(data))
            finally:
                open_file.end()
        except HdfsFailure as failure:
            _try_to_remove(client, hidden.path)
            if not tries.again(_curable(failure)):
                raise
        else:
            return hidden


class _Blocks:
    """Writes an open file block by block. Raises HdfsFailure."""

    def __init__(self, open_file: OpenHdfsFile[AsyncFileWriter], block_size: int) -> None:
        self.open_file = open_file
        self._block_size = block_size
        self._sent = 0
        self._block_begun_at = time.monotonic()

    def write(self, data: bytes) -> None:
        """Write behind what is there. A full block is synced: the sync of the next one does not do it."""
        rest = memoryview(data)
        while rest:
            if self._sent and self._sent % self._block_size == 0:
                self._begin_block()
            part = bytes(rest[: self._block_size - self._sent % self._block_size])
            self.open_file.transfer(lambda file, part=part: file.write(part))
            rest, self._sent = rest[len(part) :], self._sent + len(part)
            if self._sent % self._block_size == 0:
                self.open_file.transfer(lambda file: file.hsync())

    def _begin_block(self) -> None:
        """The NameNode refuses a next block until the DataNodes have reported the last but one, and `hdfs-native` does
        not ask again. They report within milliseconds of its end, which was when the current block began.
        """
        if self._sent > self._block_size:
            time.sleep(max(0.0, self._block_begun_at + _REPORT_SECONDS - time.monotonic()))
        self._block_begun_at = time.monotonic()


def _named(client: HdfsClient, hidden: _Hidden, target: str, data: bytes | None, tries: Tries) -> bool:
    """Rename without overwriting. True if the target is ours, False if it is another's. `data`: None where the token
    has to do. A rename may be repeated: of two that are carried out the second finds no hidden file.
    """
    while True:
        try:
            client.rename(hidden.path, target, overwrite=False)
        except HdfsFailure as failure:
            found = client.status(target, tries=tries)
            if found is not None and found.block_size == hidden.token:
                return data is None or client.read(target) == data
            if found is not None:
                client.delete(hidden.path, tries=tries)  # a late rename must not bring it when the target has gone
                return False
            if not tries.again(failure):
                _try_to_remove(client, hidden.path)
                raise
        else:
            return True


def _named_over(client: HdfsClient, hidden: _Hidden, target: str, tries: Tries) -> None:
    """Rename over the target. As above: no late rename can put this content over a later one."""
    while True:
        try:
            return client.rename(hidden.path, target, overwrite=True)
        except HdfsFailure as failure:
            if failure.trouble is Trouble.ABSENT:
                found = client.status(target, tries=tries)
                if found is not None and found.block_size == hidden.token:
                    return None
            if not tries.again(failure):
                _try_to_remove(client, hidden.path)
                raise


def _try_to_remove(client: HdfsClient, hidden: str) -> None:
    """Once. What cannot be removed must not hide the failure that left it: it is removed after a later success, at the
    latest by the next driver.
    """
    try:
        client.delete(hidden, tries=Tries(0))
    except HdfsFailure:
        client.leave(hidden)


def _remove_left(client: HdfsClient) -> None:
    """The server answers again."""
    for hidden in client.take_left():
        _try_to_remove(client, hidden)


def _curable(failure: HdfsFailure) -> HdfsFailure:
    """The target was there and is gone, or another process removed the hidden file: another try decides."""
    return HdfsFailure(Trouble.AWAY, failure.found) if failure.trouble in (Trouble.EXISTS, Trouble.ABSENT) else failure


def _finish(client: HdfsClient, open_file: OpenHdfsFile[AsyncFileWriter], *, is_synced: bool) -> None:
    """Sync and close. A slow sync announces a slow close."""
    begin = time.monotonic()
    if is_synced:
        open_file.transfer(lambda file: file.hsync())
    wait = max(_CLOSE_SECONDS, client.close_seconds, 2 * (time.monotonic() - begin))
    if wait >= _CLIENT_SLEEP_SECONDS:
        open_file.transfer(lambda file: file.close())
    elif not open_file.transfer(lambda file: _closed(file, wait)):
        client.close_seconds = 2 * wait
        raise HdfsFailure(Trouble.AWAY, "the file could not be closed: its last packet was not acknowledged in time")
    client.close_seconds = max(_CLOSE_SECONDS, 0.97 * client.close_seconds)


async def _closed(file: AsyncFileWriter, wait_seconds: float) -> bool:
    """Close, again and again. False if that does not end."""
    for factor in _CLOSE_FACTORS:
        try:
            await asyncio.wait_for(file.close(), wait_seconds * factor)
        except asyncio.TimeoutError:
            continue
        return True
    return False


_SMALLEST_BLOCK = 64 << 20
_TOKENS = 1 << 26
_KEPT_BYTES = 4 << 20
_WRITTEN_BYTES = 1 << 20
_REPORT_SECONDS = 1.0
_CLIENT_SLEEP_SECONDS = 0.5
_CLOSE_SECONDS = 0.01
_CLOSE_FACTORS = (1, 1, 2)
