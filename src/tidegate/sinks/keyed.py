"""What a key and a mark (`deleted=`) need from the rows, for all sinks that replace rows by key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from tidegate.core.errors import TidegateError
from tidegate.sinks.arrow import fields_of
from tidegate.sinks.refusals import key_not_in_rows, mark_not_boolean

if TYPE_CHECKING:
    from tidegate.sinks.arrow import Column


def keys_not_in_rows(key: Sequence[str], schema: pa.Schema, where: str) -> Iterator[TidegateError]:
    """One violation for each key column that the rows lack."""
    names = schema.names
    for name in key:
        if name not in names:
            yield key_not_in_rows(name, names, where)


def unfit_mark(deleted: str, schema: pa.Schema, where: str) -> Iterator[TidegateError]:
    """A violation unless the rows have a boolean column `deleted`."""
    kind = next((field.type for field in fields_of(schema) if field.name == deleted), None)
    if kind is None or not pa.types.is_boolean(kind):
        yield mark_not_boolean(deleted, f"columns {schema.names}" if kind is None else str(kind), where)


def deletes(batch: pa.RecordBatch, flag: str) -> Column:
    """True for each row that deletes its key: a null is no mark."""
    return cast("Any", batch.column(batch.schema.names.index(flag))).fill_null(False)
