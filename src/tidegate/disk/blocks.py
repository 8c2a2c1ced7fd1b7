"""Reads a file once, block by block, and computes its size and its SHA-256, which prove it complete."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from tidegate.disk.durable import sync_file

_BLOCK_BYTES = 1 << 20


class Readable(Protocol):
    """An open file that reads into existing memory."""

    def readinto(self, buffer: memoryview, /) -> int | None: ...


def read_blocks(file: Readable, take: Callable[[memoryview], object]) -> tuple[int, str]:
    """Read `file` from its current position to its end. Returns the size and the SHA-256 of what was read.

    `take` is called with each block and must not keep it: the next block overwrites it.
    """
    size, digest, buffer = 0, hashlib.sha256(), memoryview(bytearray(_BLOCK_BYTES))
    while length := file.readinto(buffer):
        block = buffer[:length]
        digest.update(block)
        take(block)
        size += length
    return size, digest.hexdigest()


def copy_measured(source: Readable, target: Path, passed: Callable[[int], object] = lambda _: None) -> tuple[int, str]:
    """Copy `source` from its current position to its end into the new file `target`, and sync that. Returns the size
    and the SHA-256 of what was copied.

    `passed` is called with the number of bytes of each written block. It may raise, to stop the copy.
    """
    with target.open("xb") as written:

        def take(block: memoryview) -> None:
            written.write(block)
            passed(len(block))

        found = read_blocks(source, take)
        written.flush()
        sync_file(written.fileno())
    return found


def measured(path: Path) -> tuple[int, str]:
    """Size and SHA-256 of a file."""
    with path.open("rb", buffering=0) as file:
        return read_blocks(file, lambda _: None)
