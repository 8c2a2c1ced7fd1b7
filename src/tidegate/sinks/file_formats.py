"""The closed table of file formats: how rows become bytes, and which types a format has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Protocol

import pyarrow as pa

from tidegate.sinks.arrow import fields_in
from tidegate.sinks.json_lines import JSONLinesWriter
from tidegate.sinks.parquet import ParquetRows


class RowWriter(Protocol):
    """Writes rows into an open file."""

    def write(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None:
        """Write what is still held back and the format's end, if it has one. Does not close the file."""

    def abandon(self) -> None:
        """Give up without an end, also after an error."""


@dataclass(frozen=True, slots=True)
class Format:
    """One format. `suffix` is that of the final names; `map_keys` the key types that its maps can have."""

    suffix: str
    writer: Callable[[IO[bytes], pa.Schema], RowWriter]
    map_keys: Callable[[pa.DataType], bool]

    def has(self, kind: pa.DataType) -> bool:
        """Whether the format holds values of this type, nested ones included, as Spark reads them back."""
        if pa.types.is_struct(kind):
            return kind.num_fields > 0 and all(self.has(field.type) for field in fields_in(kind))
        if pa.types.is_map(kind):
            return self.map_keys(kind.key_type) and self.has(kind.key_type) and self.has(kind.item_type)
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            return self.has(kind.value_type)
        return any(fits(kind) for fits in _SCALARS)


_SCALARS: tuple[Callable[[pa.DataType], bool], ...] = (
    lambda kind: pa.types.is_integer(kind) and not pa.types.is_uint64(kind),
    pa.types.is_boolean,
    pa.types.is_floating,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_timestamp,
)


def _any(kind: pa.DataType) -> bool:
    return True


def _as_json_name(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind)


FORMATS = {
    "parquet": Format(suffix=".parquet", writer=ParquetRows, map_keys=_any),
    "json": Format(suffix=".json", writer=JSONLinesWriter, map_keys=_as_json_name),
}
