"""The base of every value that is made durable."""

from __future__ import annotations

import msgspec


class Value(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all values: immutable, compared by content, unknown fields refused."""
