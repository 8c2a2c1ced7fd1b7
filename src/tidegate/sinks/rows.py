"""What every file format is to the rows it takes, and the refusal of a row."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import pyarrow as pa

from tidegate.core.errors import Code


class RowWriter(Protocol):
    """Writes rows into an open file."""

    @property
    def held_bytes(self) -> int:
        """What was taken and is not in the file yet, about, as Arrow holds it."""
        ...

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows. Their values have been looked at (`Format.refuses`): none is refused here."""

    def flush(self) -> None:
        """Write what is held back. The file goes on."""

    def close(self) -> None:
        """Write what is still held back and the format's end, if it has one. Does not close the file."""

    def abandon(self) -> None:
        """Give up without an end, also after an error."""


class StraightWriter:
    """The half of a writer that holds nothing back and has no end to write."""

    held_bytes = 0

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def abandon(self) -> None:
        pass


class RowRefused(ValueError):
    """A row that a target cannot hold because of a value in it: found in the task, before anything is prepared.

    `row` is the position of the row in the batch that the transaction was given, from 0 on; `column` the name of the
    column with the value. The code is the same for all of them, because the remedy is in the program.
    """

    code = Code.RECORD_REFUSED

    def __init__(self, *, row: int, column: str, expected: str, found: str, next_step: str) -> None:
        self.row = row
        self.column = column
        self.expected = expected
        self.found = found
        self.next_step = next_step
        super().__init__(f"expected {expected}, found {found}")


def one_for_each_row(refused: Iterable[RowRefused]) -> list[RowRefused]:
    """The first refusal of every row, in the order of the rows."""
    found: dict[int, RowRefused] = {}
    for each in refused:
        found.setdefault(each.row, each)
    return [found[row] for row in sorted(found)]
