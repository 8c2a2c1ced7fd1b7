"""The names of a sink's keys.

| without buckets | with buckets | contents |
|---|---|---|
| `orders:42` | `{orders.7}:42` | the row with the key 42 |
| `orders:_tidegate` | `{orders.7}:_tidegate` | a hash: the fence and the evidence of each owner |
| `orders:_tidegate:deleted` | `{orders.7}:_tidegate:deleted` | a hash: the stamps of keys that were deleted |
| `orders:_tidegate:stamp:42` | `{orders.7}:_tidegate:stamp:42` | the stamp of a row that is a string |

A cluster puts all keys with the same text in braces into one slot (redis.io, "Redis cluster specification", "Hash
tags"), and a script reaches the keys of one slot. So each bucket has its own fence beside its rows.
The bucket of a key is its CRC-32 modulo the number of buckets, which a reader computes as easily.
"""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

OWN = "_tidegate"
"""The stamp in a hash, and the begin of all names that are the sink's own."""


@dataclass(frozen=True, slots=True)
class KeyNames:
    """The names below a prefix. `buckets`: None for a server that is no cluster."""

    prefix: str
    buckets: int | None

    def all_buckets(self) -> range:
        return range(self.buckets or 1)

    def bucket_of(self, key: bytes) -> int:
        return crc32(key) % (self.buckets or 1)

    def rows(self, bucket: int) -> bytes:
        """What stands before the keys of a bucket in the names of their rows."""
        return f"{self._head(bucket)}:".encode()

    def stamps(self, bucket: int) -> bytes:
        """The same in the names of their stamps."""
        return f"{self._head(bucket)}:{OWN}:stamp:".encode()

    def ledger(self, bucket: int) -> str:
        return f"{self._head(bucket)}:{OWN}"

    def deleted(self, bucket: int) -> str:
        return f"{self._head(bucket)}:{OWN}:deleted"

    def _head(self, bucket: int) -> str:
        return self.prefix if self.buckets is None else f"{{{self.prefix}.{bucket}}}"
