"""A table with one row per member of an enum and one column per member of another, every cell filled."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Generic, TypeVar

RowT = TypeVar("RowT", bound=Enum)
ColumnT = TypeVar("ColumnT", bound=Enum)
CellT = TypeVar("CellT", bound=Enum)


class NotTotal(Exception):
    """A table lacks a cell: a fault of the code itself."""


class Matrix(Generic[RowT, ColumnT, CellT]):
    """A decision that depends on two values."""

    def __init__(self, rows: type[RowT], columns: type[ColumnT], cells: Mapping[RowT, tuple[CellT, ...]]) -> None:
        missing = [row for row in rows if len(cells.get(row, ())) != len(columns)]
        if missing:
            raise NotTotal(f"the table is not total: rows {missing} of {rows.__name__}")
        self._rows = rows
        self._columns = columns
        self._cells = {(row, column): cell for row in rows for column, cell in zip(columns, cells[row], strict=True)}

    def cell(self, row: RowT, column: ColumnT) -> CellT:
        """The decision."""
        return self._cells[row, column]

    def markdown(self, title: str) -> str:
        """The table as Markdown."""
        head = f"| {title} | " + " | ".join(str(column.value) for column in self._columns) + " |"
        rule = "|---" * (len(self._columns) + 1) + "|"
        return "\n".join([head, rule, *(self._row(row) for row in self._rows)])

    def _row(self, row: RowT) -> str:
        return f"| {row.value} | " + " | ".join(str(self._cells[row, each].value) for each in self._columns) + " |"
