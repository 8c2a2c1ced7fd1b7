"""The digest of bytes, as records and evidence have it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer


def digest_of(data: bytes) -> str:
    """The digest by which one record names another one: compared by equality only."""
    return sha256(data)


def sha256(data: Buffer) -> str:
    """The SHA-256 of `data` as 64 hex digits."""
    return hashlib.sha256(data).hexdigest()
