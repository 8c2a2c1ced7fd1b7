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
comes with every status. Here it is 16 MiB and 26 random bits. It costs no request, needs no setting of the cluster, and
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
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.storages.hdfs.client import HdfsClient, Tries
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
        self._open: AsyncFileWriter | None = None
        self._sent = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        view = memoryview(data).cast("B")
        self._kept += view
        if len(self._kept) > (_KEPT_BYTES if self._open is None else _BLOCK_BYTES):
            self._send()
        return len(view)

    def publish(self) -> bool:
        """Give the file its name. False if that name exists: then nothing is changed."""
        if self._open is None:
            return put(self._client, self._target, bytes(self._kept))
        self._send()
        # No close that is given up: one that was given up too early would cost the whole file.
        self._client.transfer(self._open.hsync)
        self._client.transfer(self._open.close)
        return _named(self._client, self._hidden, self._target, None, self._client.tries())

    def abandon(self) -> None:
        """Remove what was written, unless it has its name. What cannot be removed is hidden."""
        self._kept.clear()
        if self._open is not None:
            self._open = None
            _try_to_remove(self._client, self._hidden)

    def _send(self) -> None:
        if self._open is None:
            self._open = self._client.create(self._hidden.path, self._hidden.token)
        block = bytes(self._kept)
        self._kept.clear()
        _send(self._client, self._open, block, self._hidden.token, self._sent)
        self._sent += len(block)


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
            file = client.create(hidden.path, hidden.token)
            _send(client, file, data, hidden.token, 0)
            _finish(client, file, is_synced=is_synced and bool(data))
        except HdfsFailure as failure:
            _try_to_remove(client, hidden)
            if not tries.again(_curable(failure)):
                raise
        else:
            return hidden


def _send(client: HdfsClient, file: AsyncFileWriter, data: bytes, block_size: int, sent: int) -> None:
    """Write behind the first `sent` bytes. A full block is synced: the sync of the next one does not do it."""
    rest = memoryview(data)
    while rest:
        part = bytes(rest[: block_size - sent % block_size])
        client.transfer(lambda part=part: file.write(part))
        rest, sent = rest[len(part) :], sent + len(part)
        if sent % block_size == 0:
            client.transfer(file.hsync)


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
                _try_to_remove(client, hidden)
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
                _try_to_remove(client, hidden)
                raise


def _try_to_remove(client: HdfsClient, hidden: _Hidden) -> None:
    """Once. What cannot be removed is hidden, and must not hide the failure that left it."""
    with suppress(HdfsFailure):
        client.delete(hidden.path, tries=Tries(0))


def _curable(failure: HdfsFailure) -> HdfsFailure:
    """The target was there and is gone, or another process removed the hidden file: another try decides."""
    return HdfsFailure(Trouble.AWAY, failure.found) if failure.trouble in (Trouble.EXISTS, Trouble.ABSENT) else failure


def _finish(client: HdfsClient, file: AsyncFileWriter, *, is_synced: bool) -> None:
    """Sync and close. A slow sync announces a slow close."""
    begin = time.monotonic()
    if is_synced:
        client.transfer(file.hsync)
    wait = max(_CLOSE_SECONDS, client.close_seconds, 2 * (time.monotonic() - begin))
    if wait >= _CLIENT_SLEEP_SECONDS:
        client.transfer(file.close)
    elif not client.transfer(lambda: _closed(file, wait)):
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


_SMALLEST_BLOCK = 16 << 20
_TOKENS = 1 << 26
_KEPT_BYTES = 4 << 20
_BLOCK_BYTES = 1 << 20
_CLIENT_SLEEP_SECONDS = 0.5
_CLOSE_SECONDS = 0.01
_CLOSE_FACTORS = (1, 1, 2)
