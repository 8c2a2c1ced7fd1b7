"""The shape of a staging table and of the rows in it: the target's own columns, those that order and mark rows, and the
target's rules for single rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidegate.arrays import integers
from tidegate.sinks.arrow import fields_of
from tidegate.sinks.keyed import deletes
from tidegate.sinks.mysql.fields import RowLayout, RowTexts, row_texts
from tidegate.sinks.mysql.names import DELETED, ROW, list_of, quoted
from tidegate.sinks.mysql.table import MySQLTable
from tidegate.sinks.mysql.types import is_nested
from tidegate.sinks.mysql.values import MySQLRules
from tidegate.sinks.row_values import is_text


@dataclass(frozen=True, slots=True)
class MySQLStageShape:
    """For rows whose columns have the `names`, without the mark. `binary`: those that hold bytes. `rules`: of the sink.
    `table`: the target. `is_stage`: with the columns that a stage has beside those of the rows.
    """

    rules: MySQLRules
    table: MySQLTable
    names: tuple[str, ...]
    binary: frozenset[str]
    is_stage: bool = True

    @classmethod
    def of(cls, rules: MySQLRules, table: MySQLTable, batch: pa.RecordBatch) -> MySQLStageShape:
        fields = [field for field in fields_of(batch.schema) if field.name != rules.deleted]
        binary = {field.name for field in fields if pa.types.is_binary(field.type)}
        binary |= {field.name for field in fields if pa.types.is_large_binary(field.type)}
        return cls(rules, table, tuple(field.name for field in fields), frozenset(binary))

    @property
    def missing(self) -> list[str]:
        """The columns of the rows that the table lacks."""
        return sorted(name for name in self.names if self.table.column(name) is None)

    def must_be_tried(self, batch: pa.RecordBatch) -> bool:
        """True if only the server can tell which of these rows it takes."""
        fields = {field.name: field.type for field in fields_of(batch.schema)}
        pairs = [(fields[name], column) for name in self.names if (column := self.table.column(name)) is not None]
        return bool(self.table.checks_on(self.names)) or any(
            (is_text(kind) and (column.charset_converts or column.type == "json"))
            or (is_nested(kind) and column.type != "longtext")
            for kind, column in pairs
        )

    def declared(self) -> str:
        """The columns and checks, as CREATE TABLE has them. Nulls are judged by `MySQLRules`.

        The primary key numbers the rows: servers may demand one (sql_require_primary_key, Galera).
        """
        return ", ".join(
            [
                *(each.in_sql for each in self.table.of(self.names)),
                f"{quoted(ROW)} BIGINT NOT NULL PRIMARY KEY",
                *([] if self.rules.deleted is None else [f"{quoted(DELETED)} TINYINT(1) NOT NULL"]),
                *(f"CHECK ({self._unless}({each}))" for each in self.table.checks_on(self.names)),
            ]
        )

    @property
    def columns(self) -> list[str]:
        """The names of all columns, in the order of `rows`."""
        if not self.is_stage:
            return [*self.names]
        return [*self.names, ROW, *([DELETED] if self.rules.deleted is not None else [])]

    def insert_into(self, stage: str) -> bytes:
        """The beginning of an INSERT, up to its rows. `stage`: the name of the table in SQL."""
        return f"INSERT INTO {stage} ({list_of(self.columns)}) VALUES ".encode()

    def load_into(self, stage: str, file: str) -> str:
        """The LOAD DATA that reads rows in the layout LINES. `file`: its name as a literal of SQL."""
        variables = {name: f"@b{number}" for number, name in enumerate(self.names) if name in self.binary}
        places = ", ".join(variables.get(name) or quoted(name) for name in self.columns)
        values = ", ".join(f"{quoted(name)} = UNHEX({variable})" for name, variable in variables.items())
        return (
            f"LOAD DATA LOCAL INFILE {file} INTO TABLE {stage} CHARACTER SET utf8mb4"
            r" FIELDS TERMINATED BY '\t' ESCAPED BY '\\' LINES TERMINATED BY '\n'"
            f" ({places}){f' SET {values}' if values else ''}"
        )

    def rows(self, batch: pa.RecordBatch, first: int, layout: RowLayout) -> RowTexts:
        """The rows of `batch`. `first`: the number of its first row in the attempt."""
        beside: list[Any] = []
        if self.is_stage:
            beside.append(integers(range(first, first + batch.num_rows), pa.int64()))
        if self.is_stage and self.rules.deleted is not None:
            beside.append(deletes(batch, self.rules.deleted))
        return row_texts(self.rules.prepared(batch).select(list(self.names)), beside, layout)

    @property
    def _unless(self) -> str:
        return "" if self.rules.deleted is None else f"{quoted(DELETED)} OR "
