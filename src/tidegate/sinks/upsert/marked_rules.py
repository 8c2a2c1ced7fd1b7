"""The rules of a SQLite table if some rows only delete their key."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa

from tidegate.arrays import integers
from tidegate.sinks.rows import RowRefused, one_for_each_row
from tidegate.sinks.sqlite.values import SQLiteRules


@dataclass(frozen=True, slots=True)
class MarkedRules(SQLiteRules):
    """`deleted`: the column of the mark, which the table does not have. A marked row needs a key and nothing else."""

    deleted: str = ""

    def refused(self, batch: pa.RecordBatch) -> list[RowRefused]:
        marks: list[bool | None] = cast("Any", batch.column(batch.schema.names.index(self.deleted))).to_pylist()
        gone = [row for row, mark in enumerate(marks) if mark]
        kept = [row for row, mark in enumerate(marks) if not mark]
        names = [name for name in batch.schema.names if name != self.deleted]
        plain = SQLiteRules(self.key, self.invalid_text, self.nan, self.constraints)
        bare = dataclasses.replace(plain, constraints=None)
        return one_for_each_row(
            [*_refused(plain, batch.select(names), kept), *_refused(bare, batch.select(list(self.key)), gone)]
        )


def _refused(rules: SQLiteRules, batch: pa.RecordBatch, rows: Sequence[int]) -> list[RowRefused]:
    """The refusals of these rows of a batch, with their places in it."""
    found = rules.refused(batch.take(integers(rows, pa.int64()))) if rows else []
    for each in found:
        each.row = rows[each.row or 0]
    return found
