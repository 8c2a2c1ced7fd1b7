"""The stamps of a table's keys, in a table of their own beside it: `_tidegate_stamps_TABLE`.

A row has the columns of the key, with the types and collations of the target's, the owner, and the place of the row
that was written (`sinks/stamps.py`). So keys are equal here exactly if they are there.

Why not a column of the target. A deleted key must leave a stamp, so that an earlier row does not bring it back, and a
deleted row has no column. And the target stays as its owner has made it: no ALTER of a large table, nothing new for
`SELECT *`, for an INSERT without a list of columns, or for a copy of it. It costs an index entry a key; both rows are
written by one transaction, so they never differ.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.core.records import SinkIdentity
from tidegate.sinks.stamps import FORGOTTEN, place_of_epoch
from tidegate.sinks.upsert.fences import FENCES, short_owner_of
from tidegate.sinks.upsert.session import RESERVED, UpsertSession

OWNER, PLACE, GONE = f"{RESERVED}owner", f"{RESERVED}place", f"{RESERVED}gone"
"""Columns beside the key. GONE is 1 for a key that was deleted, otherwise NULL."""
_NAME_AT_MOST = 63
"""Bytes: PostgreSQL cuts off longer names."""


@dataclass(frozen=True, slots=True)
class StampsTable:
    """The stamps of the keys of `table`. `key`: its columns."""

    session: UpsertSession
    table: str
    key: tuple[str, ...]

    @property
    def name(self) -> str:
        plain = f"{RESERVED}stamps_{self.table}"
        return plain if len(plain.encode()) <= _NAME_AT_MOST else f"{RESERVED}stamps_{_hash(self.table)}"

    @property
    def in_sql(self) -> str:
        return self.session.own(self.name)

    @property
    def index(self) -> str:
        """The name of the index that finds deleted keys, in SQL."""
        return self.session.quoted(f"{RESERVED}gone_{_hash(self.table)}")

    def declared(self, key_columns: Sequence[str]) -> str:
        """The columns, as CREATE TABLE has them. `key_columns`: those of the key, with their types."""
        word = self.session.word
        own = (f"{OWNER} {word} NOT NULL", f"{PLACE} {word} NOT NULL", f"{GONE} SMALLINT NULL")
        return ", ".join([*key_columns, *own, f"PRIMARY KEY ({self.session.all_of(self.key)})"])

    def same_key(self, other: str, of: str = "held.") -> str:
        """The condition that two rows have the same key. `other`: the alias of the other one."""
        pairs = ((f"{of}{self.session.quoted(name)}", f"{other}{self.session.quoted(name)}") for name in self.key)
        return " AND ".join(f"{mine} = {theirs}" for mine, theirs in pairs)

    def stranger(self, rows: str, owner: str) -> tuple[str, dict[str, Any], bool] | None:
        """A key of these rows that another owner has written: the owner, the key, and whether the owner is forgotten.

        `rows`: what stands behind FROM, with the alias `staged`. Those of forgotten owners come last.
        """
        found = self.session.run(
            f"SELECT fences.told, fences.fence = '{FORGOTTEN}', {self.session.all_of(self.key, 'held.')}"
            f" FROM {rows} JOIN {self.in_sql} held ON {self.same_key('staged.')}"
            f" LEFT JOIN {self.session.own(FENCES)} fences ON fences.owner = held.{OWNER}"
            f" WHERE held.{OWNER} <> '{owner}' ORDER BY 2 LIMIT 1"
        )
        if not found:
            return None
        told, is_forgotten, *values = found[0]
        return told or "an unknown job", dict(zip(self.key, values, strict=True)), bool(is_forgotten)

    def drop_forgotten(self) -> None:
        """Remove the stamps of all forgotten owners."""
        self.session.run(
            f"DELETE FROM {self.in_sql} WHERE {OWNER} IN"
            f" (SELECT owner FROM {self.session.own(FENCES)} WHERE fence = '{FORGOTTEN}')"
        )

    def clean(self, identity: SinkIdentity, finished_through: int) -> None:
        """Remove the stamps of keys that finished epochs have deleted: no row of those is taken any more."""
        before = place_of_epoch(identity.generation, finished_through + 1)
        self.session.run(
            f"DELETE FROM {self.in_sql} WHERE {GONE} = 1 AND {OWNER} = %s AND {PLACE} < %s",
            (short_owner_of(identity), before),
        )


def _hash(table: str) -> str:
    return hashlib.sha256(table.encode()).hexdigest()[:32]
