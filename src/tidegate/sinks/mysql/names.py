"""Names in MySQL's SQL, and those that are tidegate's own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

RESERVED = "_tidegate_"
"""Names that begin so are tidegate's own."""
ROW, DELETED = "_tidegate_row", "_tidegate_deleted"
"""Columns of a stage beside those of the rows: the number of a row in its attempt, and whether it deletes its key."""


def quoted(name: str) -> str:
    """`name` as an identifier, with any characters that MySQL allows."""
    return "`" + name.replace("`", "``") + "`"


def list_of(names: Iterable[str], of: str = "") -> str:
    """Identifiers with commas between them. `of`: the alias of the table that they belong to."""
    before = f"{of}." if of else ""
    return ", ".join(f"{before}{quoted(name)}" for name in names)


def hash_of(*names: str) -> str:
    """What stands for names that are too long for an index, or that a collation might take for each other."""
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()
