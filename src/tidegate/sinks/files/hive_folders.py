"""Hive's folders `<column>=<value>`, as Spark writes and reads them.

Rules of Spark's `ExternalCatalogUtils`: control characters and ``" # % ' * / : = ? \\ { [ ] ^`` become `%` and two hex
digits. A null and an empty text become `__HIVE_DEFAULT_PARTITION__`, which is read back as null.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.sinks.arrow import columns_of
from tidegate.sinks.row_values import rows_where
from tidegate.sinks.rows import RowRefused
from tidegate.sinks.value_texts import texts_of
from tidegate.storages.target_files import NameLimits

if TYPE_CHECKING:
    from tidegate.sinks.arrow import Column

NULL = "__HIVE_DEFAULT_PARTITION__"
NAME_BYTES_AT_MOST = 255
"""Longest file name on Linux's file systems, in bytes."""

PATH_BYTES_AT_MOST = 4096
"""Longest path on Linux, in bytes, its end included."""

_ESCAPED_BYTES = 3
"""Most bytes for one byte of a value in a folder's name."""

_ESCAPED = frozenset([*map(chr, range(0x20)), *"\x7f\"#%'*/:=?\\{[]^"])
_compute = cast("Any", pc)


def by_folder(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each folder without `columns`, in the order of rows; folders in the order of their first row."""
    others = batch.select([name for name in batch.schema.names if name not in columns])
    encoded: Any = cast("Any", folders_of(batch, columns)).dictionary_encode()
    folders: list[str] = encoded.dictionary.to_pylist()
    if len(folders) == 1:
        yield folders[0], others
        return
    order = _compute.sort_indices(encoded.indices)  # a stable sort
    start = 0
    for count in _compute.value_counts(encoded.indices).field("counts").to_pylist():
        # A copy: a slice would keep the whole batch in memory until its last folder is written.
        yield folders[encoded.indices[order[start].as_py()].as_py()], others.take(order.slice(start, count))
        start += count


def refused_as_folders(batch: pa.RecordBatch, columns: Sequence[str], limits: NameLimits) -> Iterator[RowRefused]:
    """Refuses rows that cannot have a folder below the target, or whose folder's name would be read as another value.

    This check comes before the commit, because a decided epoch must get its folders.
    """
    texts = {name: _texts(batch, name) for name in columns}
    for name, text in texts.items():
        for row in rows_where(_compute.equal(text, NULL)):
            yield _refused(row, name, "read back", repr(NULL), "leave such rows out with where=: the name means a null")
    longest = [len(folder_name(name, None)) + _ESCAPED_BYTES * _longest(text) for name, text in texts.items()]
    at_most = limits.path_bytes - limits.root_bytes - 2 - NAME_BYTES_AT_MOST
    if max(longest) <= NAME_BYTES_AT_MOST and sum(longest) + len(longest) < at_most:
        return
    for name, text in texts.items():
        for row in _longer(_level(name, text), NAME_BYTES_AT_MOST):
            what = f"a folder's name ({NAME_BYTES_AT_MOST} bytes)"
            yield _refused(row, name, what, "a longer one", "partition by a hash or a prefix of the column")
    for row in _longer(folders_of(batch, columns), at_most - 1):
        what = f"a path ({limits.path_bytes} bytes with a file's name)"
        yield _refused(row, columns[0], what, "a longer one", "partition by fewer or shorter columns")


def folder_name(column: str, value: str | None) -> str:
    """The name of a partition's folder: `<column>=<value>`, with special characters escaped."""
    return f"{_escaped(column)}={_escaped(value) if value else NULL}"


def folders_of(batch: pa.RecordBatch, columns: Sequence[str]) -> Column:
    """The folder of every row, with all its levels."""
    return _compute.binary_join_element_wise(*(_level(name, _texts(batch, name)) for name in columns), "/")


def _level(name: str, texts: Column) -> Column:
    """The folder of every row for one partition column; each distinct value is escaped once."""
    encoded: Any = cast("Any", texts).dictionary_encode()
    names = [folder_name(name, value) for value in encoded.dictionary.to_pylist()]
    return pa.array(names, pa.string()).take(encoded.indices).fill_null(folder_name(name, None))


def _texts(batch: pa.RecordBatch, name: str) -> Column:
    return texts_of(columns_of(batch)[batch.schema.names.index(name)]).cast(pa.string())


def _longest(texts: Column) -> int:
    """The size of the longest text in bytes."""
    return _compute.max(_compute.binary_length(texts)).as_py() or 0


def _longer(names: Column, at_most: int) -> list[int]:
    return rows_where(_compute.greater(_compute.binary_length(names), at_most))


def _refused(row: int, column: str, fit: str, found: str, next_step: str) -> RowRefused:
    expected = f"values of partition column {column!r} that fit {fit}"
    return RowRefused(row=row, column=column, expected=expected, found=found, next_step=next_step)


def _escaped(text: str) -> str:
    return "".join(f"%{ord(each):02X}" if each in _ESCAPED else each for each in text)
