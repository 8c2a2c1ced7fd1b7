"""Rows as keys and values of Redis, and the rows that are refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from tidegate.sinks.arrow import columns_of
from tidegate.sinks.json_lines import json_objects, json_text, json_values
from tidegate.sinks.redis.names import OWN
from tidegate.sinks.row_values import InvalidText, refused_nulls, refused_texts, with_valid_texts
from tidegate.sinks.rows import RowRefused, one_for_each_row
from tidegate.sinks.value_texts import as_bytes

if TYPE_CHECKING:
    from tidegate.sinks.arrow import Column


@dataclass(frozen=True, slots=True)
class RedisRules:
    """The rules by which rows are refused. `deleted`: the column that marks a key as deleted."""

    key: tuple[str, ...]
    deleted: str | None
    invalid_text: InvalidText

    def refused(self, batch: pa.RecordBatch) -> list[RowRefused]:
        found = [*refused_texts(batch, self.invalid_text), *refused_nulls(batch, self.key, "key column")]
        if not found:  # otherwise a key may be no text
            found += self._own_names(self.prepared(batch))
        return one_for_each_row(found)

    def prepared(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows as the sink writes them. The caller has removed refused rows."""
        return with_valid_texts(batch) if self.invalid_text is InvalidText.REPLACE else batch

    def _own_names(self, batch: pa.RecordBatch) -> Iterator[RowRefused]:
        for row, key in enumerate(keys_of(batch, self.key)):
            if key.startswith(OWN.encode()):
                yield RowRefused(
                    row=row,
                    column=self.key[0],
                    expected=f"a key that does not begin with {OWN!r}: those are tidegate's own",
                    found=repr(key[:40]),
                    next_step="put another column in front of it in key=[...], or leave such rows out with where=",
                )


def keys_of(batch: pa.RecordBatch, key: tuple[str, ...]) -> list[bytes]:
    """The key of each row. The parts of a key of several columns stand with `:` between them: in each part `%` is
    written as `%25` and `:` as `%3A`, so that two keys never get one name.
    """
    columns = columns_of(batch)
    parts = [as_bytes(columns[batch.schema.names.index(name)]) for name in key]
    if len(parts) == 1:
        return [part or b"" for part in parts[0]]
    return [b":".join(_escaped(part or b"") for part in row) for row in zip(*parts, strict=True)]


def as_fields(batch: pa.RecordBatch) -> list[tuple[bytes, ...]]:
    """Each row as the fields and values of a hash. A null is left out."""
    pairs = zip(batch.schema.names, columns_of(batch), strict=True)
    sides = [side for name, column in pairs for side in (repeat(name.encode()), _as_values(column))]
    return [_without_nulls(row) if None in row else cast("tuple[bytes, ...]", row) for row in zip(*sides)]  # noqa: B905


def _without_nulls(row: tuple[bytes | None, ...]) -> tuple[bytes, ...]:
    pairs = zip(row[::2], row[1::2], strict=True)
    return tuple(each for name, value in pairs if value is not None for each in (name or b"", value))


def as_json(batch: pa.RecordBatch) -> list[tuple[bytes, ...]]:
    """Each row as a text of JSON."""
    return [(each,) for each in json_objects(batch)]


def deletes(batch: pa.RecordBatch, flag: str | None) -> list[bool]:
    """True for each row that deletes its key: a null is no mark."""
    if flag is None:
        return [False] * batch.num_rows
    column = cast("Any", batch.column(batch.schema.names.index(flag)))
    return column.fill_null(False).to_pylist()


def _as_values(column: Column) -> list[bytes | None]:
    if not pa.types.is_nested(column.type):
        return as_bytes(column)
    return [None if value is None else json_text(value).encode() for value in json_values(column)]


def _escaped(part: bytes) -> bytes:
    return part.replace(b"%", b"%25").replace(b":", b"%3A")
