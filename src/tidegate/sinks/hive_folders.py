"""Hive's folders `<column>=<value>`, as Spark writes them and reads them back.

Rules of Spark's `ExternalCatalogUtils`: control characters and ``" # % ' * / : = ? \\ { [ ] ^`` become `%` and two hex
digits; a null and an empty text become `__HIVE_DEFAULT_PARTITION__`, which is read back as null.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.sinks.arrow import columns_of
from tidegate.sinks.rows import RowRefused

if TYPE_CHECKING:
    from tidegate.sinks.arrow import Column

NULL = "__HIVE_DEFAULT_PARTITION__"
NAME_BYTES_AT_MOST = 255
"""What Linux's file systems take as one name; to be refused by the task, for a decided epoch must get its folder."""

_ESCAPED = frozenset([*map(chr, range(0x20)), *"\x7f\"#%'*/:=?\\{[]^"])
_TYPES = (pa.types.is_string, pa.types.is_large_string, pa.types.is_integer, pa.types.is_boolean, pa.types.is_date)
_compute = cast("Any", pc)


def can_name_a_folder(kind: pa.DataType) -> bool:
    """Whether a folder can be named after values of this type so that Spark reads the same values back.

    Not after times (their text depends on the reader's time zone), fractions or nested values.
    """
    return any(fits(kind) for fits in _TYPES) and not pa.types.is_uint64(kind)


def by_folder(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each folder without `columns`, in the order of rows; folders as they first appear.

    Raises RowRefused for a value that is too long for a folder's name.
    """
    others = batch.select([name for name in batch.schema.names if name not in columns])
    by_name = dict(zip(batch.schema.names, columns_of(batch), strict=True))
    levels = [_level(name, by_name[name]) for name in columns]
    encoded: Any = _compute.binary_join_element_wise(*levels, "/").dictionary_encode()
    folders: list[str] = encoded.dictionary.to_pylist()
    if len(folders) == 1:
        yield folders[0], others
        return
    order = _compute.sort_indices(encoded.indices)  # stable
    start = 0
    for count in _compute.value_counts(encoded.indices).field("counts").to_pylist():
        # A copy: a slice would keep the whole batch in memory until its last folder is written.
        yield folders[encoded.indices[order[start].as_py()].as_py()], others.take(order.slice(start, count))
        start += count


def folder_name(column: str, value: str | None) -> str:
    """`<column>=<value>`, escaped."""
    return f"{_escaped(column)}={_escaped(value) if value else NULL}"


def _level(name: str, column: Column) -> Column:
    """The folder of every row for one partition column; each distinct value is escaped once."""
    encoded: Any = cast("Any", column.cast(pa.string())).dictionary_encode()
    names = [_checked(folder_name(name, value), name) for value in encoded.dictionary.to_pylist()]
    return pa.array(names, pa.string()).take(encoded.indices).fill_null(folder_name(name, None))


def _escaped(text: str) -> str:
    return "".join(f"%{ord(each):02X}" if each in _ESCAPED else each for each in text)


def _checked(folder: str, column: str) -> str:
    size_bytes = len(folder.encode())
    if size_bytes > NAME_BYTES_AT_MOST:
        raise RowRefused(
            expected=f"values of partition column {column!r} that fit a folder's name ({NAME_BYTES_AT_MOST} bytes)",
            found=f"{folder[:60]!r}... with {size_bytes} bytes",
            next_step="partition by a shorter column, for instance a hash or a prefix of it",
        )
    return folder
