"""What every file format is to the rows it takes."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa


class RowWriter(Protocol):
    """Writes rows into an open file."""

    @property
    def held_bytes(self) -> int:
        """What was taken and is not in the file yet, about, as Arrow holds it."""
        ...

    def write(self, batch: pa.RecordBatch) -> None:
        """Take rows. Raises RowRefused for a value that the format cannot say."""

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
    """A row that the target's format cannot hold: found in the task, before anything is prepared."""

    def __init__(self, *, expected: str, found: str, next_step: str) -> None:
        self.expected = expected
        self.found = found
        self.next_step = next_step
        super().__init__(f"expected {expected}, found {found}")
