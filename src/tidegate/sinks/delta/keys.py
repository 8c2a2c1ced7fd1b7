"""Finds rows by their keys, with bounded memory: keys come in portions, and a bit stands for each row that goes.

Keys are compared by Arrow's hash join, so exactly and over several columns. A null equals no key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

PORTION_ROWS = 1_000_000
PORTION_BYTES = 64 * 1024 * 1024
"""A portion of keys ends behind so many rows, or so many bytes in Arrow's count."""

Numbers: TypeAlias = npt.NDArray[np.int64]

_SET_BITS = np.array([number.bit_count() for number in range(256)], np.uint8)
_ROW = " row"
"""No column of a Delta table has a space in its name."""


@dataclass(frozen=True, slots=True)
class Portion:
    """The keys of rows that follow each other. `first`: the number of its first row."""

    first: int
    keys: pa.Table

    @property
    def numbered(self) -> pa.Table:
        numbers = np.arange(self.first, self.first + self.keys.num_rows)
        return self.keys.append_column(_ROW, cast("Any", pa.array(numbers)))


def portions(batches: Iterable[pa.RecordBatch]) -> Iterator[Portion]:
    """The portions of these keys, whose rows have the numbers from 0 on."""
    first, rows, size_bytes = 0, 0, 0
    gathered: list[pa.RecordBatch] = []
    for batch in batches:
        gathered.append(batch)
        rows, size_bytes = rows + batch.num_rows, size_bytes + batch.nbytes
        if rows >= PORTION_ROWS or size_bytes >= PORTION_BYTES:
            yield Portion(first, pa.Table.from_batches(gathered))
            first, rows, size_bytes, gathered = first + rows, 0, 0, []
    if gathered:
        yield Portion(first, pa.Table.from_batches(gathered))


def newest(portion: Portion) -> tuple[pa.Table, Numbers]:
    """Each key of a portion once, and the numbers of the rows that have a later row of their key in it."""
    grouped: Any = portion.numbered.group_by(portion.keys.column_names).aggregate([(_ROW, "max")])
    stays = np.zeros(portion.keys.num_rows, np.bool_)
    stays[grouped[f"{_ROW}_max"].to_numpy() - portion.first] = True
    return grouped.select(portion.keys.column_names), np.flatnonzero(~stays) + portion.first


def with_keys(portion: Portion, keys: pa.Table) -> Numbers:
    """The numbers of the rows of a portion that have one of these keys, in any order."""
    names = keys.column_names
    return cast("Any", portion.numbered.join(keys, names, join_type="left semi"))[_ROW].to_numpy()


class RowMarks:
    """A bit for each row of a file, or of an epoch: set if the row goes. `rows`: how many there are."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self._bits = np.zeros(-(-rows // 8), np.uint8)

    def add(self, numbers: Numbers) -> None:
        np.bitwise_or.at(self._bits, numbers >> 3, np.left_shift(1, numbers & 7).astype(np.uint8))

    def of(self, first: int, rows: int) -> npt.NDArray[np.bool_]:
        """The marks of the rows from `first` on."""
        bits = self._bits[first // 8 : -(-(first + rows) // 8)]
        return np.unpackbits(bits, bitorder="little")[first % 8 : first % 8 + rows].astype(np.bool_)

    def is_any(self, first: int, rows: int) -> bool:
        steps = range(first, first + rows, PORTION_ROWS)
        return any(self.of(step, min(PORTION_ROWS, first + rows - step)).any() for step in steps)

    @property
    def are_all(self) -> bool:
        return int(_SET_BITS[self._bits].sum(dtype=np.int64)) == self.rows


def key_of(batch: pa.RecordBatch, key: Sequence[str]) -> pa.RecordBatch:
    """The columns of a key, in its order."""
    return batch.select(list(key))
