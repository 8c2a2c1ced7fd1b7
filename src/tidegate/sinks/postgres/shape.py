"""The shape of a staging table and of the rows in it: the target's own columns, those that order and mark rows, and the
target's rules for single rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.arrays import integers
from tidegate.sinks.arrow import columns_of, fields_of
from tidegate.sinks.keyed import deletes
from tidegate.sinks.postgres.copy_format import rows_of
from tidegate.sinks.postgres.table import TableColumn, TargetTable
from tidegate.sinks.postgres.types import JSON_TYPES
from tidegate.sinks.postgres.values import PostgresRules
from tidegate.sinks.row_values import is_text
from tidegate.sinks.sql_names import list_of, quoted

RESERVED = "_tidegate_"
"""Names that begin so are tidegate's own."""
ROW, DELETED = "_tidegate_row", "_tidegate_deleted"
"""Columns beside those of the rows: the number of a row in its attempt, and whether it deletes its key."""


_SHORT_KEY_BYTES = 2_000
_compute = cast("Any", pc)


@dataclass(frozen=True, slots=True)
class StageShape:
    """For rows whose columns have the `names`, without the mark. `rules`: of the sink. `table`: the target."""

    rules: PostgresRules
    table: TargetTable
    names: tuple[str, ...]

    @classmethod
    def of(cls, rules: PostgresRules, table: TargetTable, batch: pa.RecordBatch) -> StageShape:
        return cls(rules, table, tuple(name for name in batch.schema.names if name != rules.deleted))

    @property
    def missing(self) -> list[str]:
        """The columns of the rows that the table lacks."""
        return sorted(set(self.names) - {each.name for each in self.table.columns})

    def has_long_key(self, batch: pa.RecordBatch) -> bool:
        """True if the key of a row may be too long for an entry of an index, which has room for 2,704 bytes.

        It depends on how well the key can be compressed, so only the server can tell: see `index_of_keys`.
        """
        keys = [
            values for name, values in zip(batch.schema.names, columns_of(batch), strict=True) if name in self.rules.key
        ]
        lengths = [_compute.fill_null(_compute.binary_length(each), 0) for each in keys if _has_bytes(each.type)]
        return sum(_compute.max(each).as_py() or 0 for each in lengths) > _SHORT_KEY_BYTES

    def index_of_keys(self, stage: str) -> str:
        """The index over the key that tests whether each key fits into the one of the target."""
        return f"CREATE INDEX ON {stage} ({list_of(self.rules.key)})"

    def must_be_tried(self, batch: pa.RecordBatch) -> bool:
        """True if only the server can tell which of these rows it takes."""
        fields = {field.name: field.type for field in fields_of(batch.schema)}
        return (
            bool(self.table.checks_on(self.names))
            or self.has_long_key(batch)
            or any(
                each.is_enum or each.is_domain or (each.type in JSON_TYPES and is_text(fields[each.name]))
                for each in self.table.of(self.names)
            )
        )

    def declared(self) -> str:
        """The columns and checks, as CREATE TABLE has them.

        A row that deletes its key is bound by no other rule than that of the key.
        """
        columns = [self._column(each) for each in self.table.of(self.names)]
        if self.rules.key:
            columns.append(f"{ROW} bigint NOT NULL")
        if self.rules.deleted is not None:
            columns.append(f"{DELETED} boolean NOT NULL")
        return ", ".join([*columns, *(f"CHECK ({self._unless}({each}))" for each in self.table.checks_on(self.names))])

    def copy_into(self, stage: str, options: str = "") -> bytes:
        """The COPY that fills a table of this shape. `stage`: its name in SQL."""
        beside = [*([ROW] if self.rules.key else []), *([DELETED] if self.rules.deleted is not None else [])]
        return f"COPY {stage} ({list_of([*self.names, *beside])}) FROM STDIN (FORMAT binary{options})".encode()

    def rows(self, batch: pa.RecordBatch, first: int) -> bytes | memoryview:
        """The rows of `batch` for this COPY. `first`: the number of its first row in the attempt."""
        beside: list[Any] = []
        if self.rules.key:
            beside.append(integers(range(first, first + batch.num_rows), pa.int64()))
        if self.rules.deleted is not None:
            beside.append(deletes(batch, self.rules.deleted))
        return rows_of(self.rules.prepared(batch).select(list(self.names)), self.table.of(self.names), beside)

    @property
    def _unless(self) -> str:
        return "" if self.rules.deleted is None else f"{DELETED} OR "

    def _column(self, column: TableColumn) -> str:
        collation = f" COLLATE {column.collation}" if column.collation else ""
        rule = ""
        if column.not_null:
            is_bound = self.rules.deleted is None or column.name in self.rules.key
            rule = " NOT NULL" if is_bound else f" CHECK ({self._unless}{quoted(column.name)} IS NOT NULL)"
        return f"{quoted(column.name)} {column.declared}{collation}{rule}"


def _has_bytes(kind: pa.DataType) -> bool:
    return is_text(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
