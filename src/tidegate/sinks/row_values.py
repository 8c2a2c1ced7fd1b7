"""Refusals that depend on a row's values: text that is not UTF-8, a NaN for a target without NaN, a null in a key.

Spark's strings may hold any bytes (`CAST(value AS STRING)` of a Kafka record checks nothing). Readers of JSON, SQLite,
Parquet or CSV fail at such a text. So every sink refuses such a row by default.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.arrays import binaries
from tidegate.sinks.arrow import batch_of, columns_of
from tidegate.sinks.nested import Leaf, leaves_of, with_leaves
from tidegate.sinks.refusals import not_one_of
from tidegate.sinks.rows import RowRefused

if TYPE_CHECKING:
    from tidegate.sinks.arrow import Column

_compute = cast("Any", pc)
_Option = TypeVar("_Option", bound=Enum)


class InvalidText(Enum):
    """The treatment of a text that is not UTF-8: the option `invalid_text=`."""

    REFUSE = "refuse"
    REPLACE = "replace"


class NaN(Enum):
    """The treatment of a NaN if the target has none: the option `nan=`."""

    REFUSE = "refuse"
    NULL = "null"


def option_of(kind: type[_Option], name: str, given: str, uid: str) -> _Option:
    """The option value `given` of sink `uid`. Raises OPTION_UNKNOWN for any other word."""
    try:
        return kind(given)
    except ValueError:
        raise not_one_of(name, (each.value for each in kind), given, uid) from None


# --- text that is not UTF-8 --------------------------------------------------------------------------------


def refused_texts(batch: pa.RecordBatch, policy: InvalidText) -> Iterator[RowRefused]:
    """A refusal for every text in `batch` that cannot be written under `policy`, also in nested values."""
    for name, column in zip(batch.schema.names, columns_of(batch), strict=True):
        for leaf in leaves_of(column, name):
            if _has_invalid(leaf.values):
                yield from _refused_in(leaf, name, policy)


def with_valid_texts(batch: pa.RecordBatch, errors: str = "replace") -> pa.RecordBatch:
    """The batch with U+FFFD in place of bytes that are not UTF-8 (one for each part, as Unicode recommends).

    `errors`: another of Python's error handlers for decoding (docs.python.org/3/library/codecs.html#error-handlers).
    """
    columns = columns_of(batch)
    flawed = [any(_has_invalid(leaf.values) for leaf in leaves_of(column, "")) for column in columns]
    if not any(flawed):
        return batch
    replaced = partial(_replaced, errors=errors)
    mended = [with_leaves(column, replaced) if bad else column for column, bad in zip(columns, flawed, strict=True)]
    return batch_of(mended, batch.schema.names)


def is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _has_invalid(column: Column) -> bool:
    """Arrow's own check: 0.06 ms for 100,000 texts of 20 bytes."""
    if not is_text(column.type):
        return False
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return True
    return False


def _refused_in(leaf: Leaf, column: str, policy: InvalidText) -> Iterator[RowRefused]:
    contents = _contents(leaf.values)
    invalid = [place for place, content in enumerate(contents) if content is not None and _is_invalid(content)]
    if policy is InvalidText.REPLACE and not leaf.in_a_key:
        return
    if policy is InvalidText.REPLACE:
        invalid = _that_clash(leaf, contents, invalid)
    rows = leaf.rows()
    for place in invalid:
        content = contents[place] or b""
        yield RowRefused(
            row=int(rows[place]),
            column=column,
            expected=f"text in UTF-8 in {leaf.path!r}",
            found=f"{content[:40]!r}{'...' if len(content) > 40 else ''}"
            + (", which would replace another key of its map" if policy is InvalidText.REPLACE else ""),
            next_step=_OTHER_WAYS[policy],
        )


_OTHER_WAYS = {
    InvalidText.REFUSE: 'cast it to binary in select=[...], which keeps the bytes, or use invalid_text="replace"',
    InvalidText.REPLACE: "cast the keys to binary in select=[...], or leave such rows out with where=",
}


def _that_clash(leaf: Leaf, contents: list[bytes | None], invalid: list[int]) -> list[int]:
    """The keys that would be equal to another key of their map after invalid bytes are replaced.

    If a key is nested, all keys inside it are returned.
    """
    if leaf.maps is None:
        return invalid
    maps, texts = leaf.maps(), [_as_valid(content or b"") for content in contents]
    in_maps = {int(maps[place]) for place in invalid}
    taken: dict[tuple[int, bytes], list[int]] = {}
    for place in np.flatnonzero(np.isin(maps, list(in_maps))):
        taken.setdefault((int(maps[place]), texts[place]), []).append(int(place))
    return sorted(place for places in taken.values() if len(places) > 1 for place in places)


def _is_invalid(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return True
    return False


def _as_valid(content: bytes, errors: str = "replace") -> bytes:
    return content.decode("utf-8", errors).encode()


def _replaced(column: Column, errors: str) -> Column:
    if not _has_invalid(column):
        return column
    replaced = binaries([None if each is None else _as_valid(each, errors) for each in _contents(column)], pa.string())
    return replaced.cast(column.type)


def _contents(texts: Column) -> list[bytes | None]:
    return cast("Any", texts).cast(pa.large_binary()).to_pylist()


# --- NaN and nulls -----------------------------------------------------------------------------------------


def refused_nans(batch: pa.RecordBatch, spared: Container[str] = ()) -> Iterator[RowRefused]:
    """A refusal for every NaN in the columns of plain numbers, except the columns `spared`."""
    for name, column in zip(batch.schema.names, columns_of(batch), strict=True):
        if pa.types.is_floating(column.type) and name not in spared:
            for row in rows_where(_compute.is_nan(column)):
                yield RowRefused(
                    row=row,
                    column=name,
                    expected=f"a number in {name!r}, or a null",
                    found="NaN, which SQLite does not have",
                    next_step='give it a value with F.nanvl in select=[...], or the sink nan="null" (not for keys)',
                )


def refused_nulls(batch: pa.RecordBatch, columns: Iterable[str], why: str) -> Iterator[RowRefused]:
    """A refusal for every null in `columns`. `why`: the kind of column that must have a value."""
    for name in columns:
        column = columns_of(batch)[batch.schema.names.index(name)]
        if column.null_count:
            for row in rows_where(column.is_null()):
                yield RowRefused(
                    row=row,
                    column=name,
                    expected=f"a value in {why} {name!r} of every row",
                    found="a null",
                    next_step="leave such rows out with where=, or give them a value with F.coalesce",
                )


def rows_where(mask: Column) -> list[int]:
    """The row numbers where a column of booleans is true."""
    return _compute.indices_nonzero(mask.fill_null(False)).to_pylist() if _compute.any(mask).as_py() else []
