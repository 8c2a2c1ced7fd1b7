"""The parts of Arrow that the sinks use. Arrow has few type hints, so its types are declared once, here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

if TYPE_CHECKING:
    Column = pa.Array[Any]
    Field = pa.Field[Any]


def fields_of(schema: pa.Schema) -> list[Field]:
    return cast("list[Field]", list(schema))


def fields_in(struct: pa.DataType) -> list[Field]:
    """The fields of a struct type."""
    return [cast("Any", struct).field(position) for position in range(struct.num_fields)]


def columns_of(batch: pa.RecordBatch) -> list[Column]:
    return cast("list[Column]", batch.columns)


def batch_of(columns: Sequence[Column], names: Sequence[str]) -> pa.RecordBatch:
    return cast("Any", pa.RecordBatch).from_arrays(list(columns), names=list(names))
