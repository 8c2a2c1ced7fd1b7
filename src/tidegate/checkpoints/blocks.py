"""Reads a file once, block by block: what proves it whole, while somebody else takes the blocks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import IO

BLOCK_BYTES = 1 << 20

Take = Callable[[memoryview], object]


def read_blocks(file: IO[bytes], take: Take) -> tuple[int, str]:
    """Size and SHA-256 of what is left of an open file. `take` has each block, which is valid until it returns."""
    size, digest, buffer = 0, hashlib.sha256(), memoryview(bytearray(BLOCK_BYTES))
    while block := buffer[: _filled(file, buffer)]:
        digest.update(block)
        take(block)
        size += len(block)
    return size, digest.hexdigest()


def measured(path: Path) -> tuple[int, str]:
    """Size and SHA-256 of a file."""
    with path.open("rb", buffering=0) as file:
        return read_blocks(file, lambda _: None)


def _filled(file: IO[bytes], buffer: memoryview) -> int:
    length: int = file.readinto(buffer)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType, reportAttributeAccessIssue]
    return length
