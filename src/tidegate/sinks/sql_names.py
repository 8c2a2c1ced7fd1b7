"""Names in SQL."""

from __future__ import annotations

from collections.abc import Iterable


def quoted(name: str) -> str:
    """`name` as an SQL identifier, with any characters."""
    return '"' + name.replace('"', '""') + '"'


def list_of(names: Iterable[str]) -> str:
    """Identifiers with commas between them."""
    return ", ".join(quoted(name) for name in names)
