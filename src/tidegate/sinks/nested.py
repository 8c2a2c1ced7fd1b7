"""Splits columns of nested values into the columns of plain values in them, and joins these again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from tidegate.sinks.arrow import fields_in

if TYPE_CHECKING:
    from tidegate.sinks.arrow import Column

    Rows = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Leaf:
    """The plain values at one place of a column.

    `path` names the place: `v` itself, `v.field` of a struct, `v[]` of an array, `v.key` and `v.value` of a map.
    `rows`: returns for each value the index of the row that contains the value. `maps`: for keys of a map, returns for
    each key the index of its map. `in_a_key`: True for a value inside the key of a map, at any depth.
    """

    path: str
    values: Column
    rows: Callable[[], Rows]
    maps: Callable[[], Rows] | None = None
    in_a_key: bool = False


def leaves_of(column: Column, path: str) -> Iterator[Leaf]:
    """Split a column into leaves: a plain column is one leaf, a nested one has a leaf for each place of plain values.

    `path`: the name of the column. The `path` of each leaf begins with it.
    """
    length = len(column)
    return _leaves(column, path, lambda: np.arange(length), None, in_a_key=False)


def _leaves(
    column: Column, path: str, rows: Callable[[], Rows], maps: Callable[[], Rows] | None, *, in_a_key: bool
) -> Iterator[Leaf]:
    kind = column.type
    if pa.types.is_struct(kind):
        for field, values in zip(fields_in(kind), cast("Any", column).flatten(), strict=True):
            yield from _leaves(values, f"{path}.{field.name}", rows, None, in_a_key=in_a_key)
    elif pa.types.is_map(kind):
        owners, (keys, items) = owners_of(column), entries_of(column)
        of_rows = lambda: rows()[owners()]  # noqa: E731
        yield from _leaves(keys, f"{path}.key", of_rows, owners, in_a_key=True)
        yield from _leaves(items, f"{path}.value", of_rows, None, in_a_key=in_a_key)
    elif is_list(kind):
        owners = owners_of(column)
        yield from _leaves(elements_of(column), f"{path}[]", lambda: rows()[owners()], None, in_a_key=in_a_key)
    else:
        yield Leaf(path, column, rows, maps, in_a_key)


def with_leaves(column: Column, change: Callable[[Column], Column]) -> Column:
    """The column with each plain column in it replaced by `change` of it. `change` keeps type, length and nulls."""
    kind, whole = column.type, cast("Any", pa)
    if pa.types.is_struct(kind):
        parts = [with_leaves(cast("Any", column).field(number), change) for number in range(kind.num_fields)]
        return whole.StructArray.from_arrays(parts, fields=fields_in(kind), mask=column.is_null())
    if pa.types.is_map(kind):
        keys, items = (with_leaves(part, change) for part in entries_of(column))
        return whole.MapArray.from_arrays(*_offsets(column), keys, items, type=kind, mask=column.is_null())
    if is_list(kind):
        array = whole.LargeListArray if pa.types.is_large_list(kind) else whole.ListArray
        elements = with_leaves(elements_of(column), change)
        return array.from_arrays(*_offsets(column), elements, type=kind, mask=column.is_null())
    return change(column)


def is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind)


def element_of(kind: pa.DataType) -> pa.DataType:
    """The type of the elements of a list type."""
    return cast("Any", kind).value_type


def bounds_of(column: Column) -> Rows:
    """The first and last entry of each list or map, counted from the column's own first entry."""
    offsets = np.asarray(cast("Any", column).offsets)
    return offsets - offsets[0] if len(column) else np.zeros(1, np.int32)


def owners_of(column: Column) -> Callable[[], Rows]:
    """Returns a function that computes, for every entry of a list or map column, the index of its list or map."""
    return lambda: np.repeat(np.arange(len(column)), np.diff(bounds_of(column)))


def elements_of(column: Column) -> Column:
    """The elements of all lists of the column, one after the other."""
    return _own(column, cast("Any", column).values)


def entries_of(column: Column) -> tuple[Column, Column]:
    """The keys and the values of all maps of the column."""
    return _own(column, cast("Any", column).keys), _own(column, cast("Any", column).items)


def _own(column: Column, values: Column) -> Column:
    """The entries of this column, without others of the column that it was sliced from."""
    if not len(column):
        return values.slice(0, 0)
    offsets = np.asarray(cast("Any", column).offsets)
    return values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))


def _offsets(column: Column) -> tuple[Column]:
    kind = pa.int64() if pa.types.is_large_list(column.type) else pa.int32()
    return (cast("Column", pa.array(bounds_of(column), kind)),)
