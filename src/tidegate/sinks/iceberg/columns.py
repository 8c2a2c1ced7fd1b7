"""The table as a start has read it, as a value for the tasks: columns with their ids, partitions, rules.

A file has the ids of its columns, so it stays right if a column is renamed before the commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionFieldValue as FieldValue
from pyiceberg.partitioning import PartitionKey, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record

from tidegate.sinks.arrow import columns_of, fields_of
from tidegate.sinks.files.shape import FileShape
from tidegate.sinks.iceberg.partitions import transform_of
from tidegate.sinks.row_values import refused_nulls, refused_texts, rows_where, with_valid_texts
from tidegate.sinks.rows import RowRefused, one_for_each_row
from tidegate.storages.target_files import NameLimits

if TYPE_CHECKING:
    from pyiceberg.table import Table

DATA = "data"
"""The folder of the data files, below the table's location."""

_METRICS = "write.metadata.metrics."
_DAY_US = 24 * 60 * 60 * 1_000_000
_LEVEL_AT_MOST = 120
"""A longer name of a partition's folder is cut, and told apart by a digest."""

_compute = cast("Any", pc)


@dataclass(frozen=True)
class TableColumns:
    """What a task needs to know of the table.

    `uuid`: of the table. `location`: its folder, as its metadata writes it. `schema_json`, `spec_json`: in the format
    of the table's metadata. `metrics`: the table's properties that say which statistics files have.
    """

    uuid: str
    location: str
    schema_json: str
    spec_json: str
    metrics: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def of(cls, table: Table) -> TableColumns:
        metrics = {name: value for name, value in table.properties.items() if name.startswith(_METRICS)}
        schema, spec = table.schema().model_dump_json(), table.spec().model_dump_json()
        return cls(str(table.metadata.table_uuid), table.location().rstrip("/"), schema, spec, metrics)

    def __getstate__(self) -> dict[str, object]:
        """Without what was computed from it."""
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    @cached_property
    def schema(self) -> Schema:
        return Schema.model_validate_json(self.schema_json)

    @cached_property
    def spec(self) -> PartitionSpec:
        return PartitionSpec.model_validate_json(self.spec_json)

    @property
    def needed(self) -> list[str]:
        """The columns that must have a value."""
        return [column.name for column in self.schema.fields if column.required]

    def schema_for(self, names: Sequence[str]) -> Schema:
        """The table's schema with these columns only, and their ids."""
        return self.schema.select(*names)

    def arrow_for(self, names: Sequence[str]) -> pa.Schema:
        """The schema of a file with these columns."""
        return schema_to_pyarrow(self.schema_for(names), include_field_ids=True)


@dataclass(frozen=True, slots=True)
class TableShape(FileShape):
    """The layout of rows in the files of a table. `columns`: of the table. `values`: receives the partition of each
    folder, as texts.
    """

    columns: TableColumns | None = None
    values: dict[str, list[str | None]] = field(default_factory=dict[str, "list[str | None]"])

    def refused(self, batch: pa.RecordBatch, limits: NameLimits | None = None) -> list[RowRefused]:
        found = [] if self.invalid_text is None else list(refused_texts(batch, self.invalid_text))
        needed = () if self.columns is None else [name for name in self.columns.needed if name in batch.schema.names]
        moments = () if self.columns is None else _moments_out_of_range(self.columns, batch)
        return one_for_each_row([*found, *refused_nulls(batch, needed, "required column"), *moments])

    def prepared(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with the types and the ids of the table's columns."""
        valid = with_valid_texts(batch) if self.invalid_text is not None else batch
        wanted = _demanded(self.columns).arrow_for(valid.schema.names)
        by_name = dict(zip(valid.schema.names, columns_of(valid), strict=True))
        columns = [by_name[column.name].cast(column.type) for column in fields_of(wanted)]
        return cast("Any", pa.RecordBatch).from_arrays(columns, schema=wanted)

    def pieces(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows of each partition with the folder of its files, in the order of the partitions' first rows."""
        table = _demanded(self.columns)
        if table.spec.is_unpartitioned():
            yield DATA, batch
            return
        keys = partition_keys(table, batch)
        encoded = _joined(keys).dictionary_encode()
        order = _compute.sort_indices(encoded.indices)
        start = 0
        for count in _counts(encoded):
            rows = order.slice(start, count)
            first = rows[0].as_py()
            yield self._folder(table, [key[first].as_py() for key in keys]), batch.take(rows)
            start += count

    def _folder(self, table: TableColumns, raw: Sequence[Any]) -> str:
        given = [FieldValue(field=each, value=value) for each, value in zip(table.spec.fields, raw, strict=True)]
        record = PartitionKey(given, table.spec, table.schema).partition
        folder = "/".join([DATA, *_levels(table, record)])
        self.values[folder] = texts_of(table.spec, table.schema, record)
        return folder


def partition_keys(table: TableColumns, batch: pa.RecordBatch) -> list[Any]:
    """The value of each partition field for each row, as arrays."""
    by_name = dict(zip(batch.schema.names, columns_of(batch), strict=True))
    found: list[Any] = []
    for each in table.spec.fields:
        source = table.schema.find_field(each.source_id)
        transform: Any = transform_of(each)
        found.append(transform.pyarrow_transform(source.field_type)(by_name[source.name]))
    return found


def texts_of(spec: PartitionSpec, schema: Schema, record: Record) -> list[str | None]:
    """The values of a partition as texts: the format's own bytes of a single value, in hex digits."""
    types = [each.field_type for each in spec.partition_type(schema).fields]
    return [
        None if record[place] is None else to_bytes(cast("Any", kind), record[place]).hex()
        for place, kind in enumerate(types)
    ]


def record_of(spec: PartitionSpec, schema: Schema, texts: Sequence[str | None]) -> Record:
    """The inverse of `texts_of`."""
    types = [each.field_type for each in spec.partition_type(schema).fields]
    return Record(
        *(
            None if text is None else from_bytes(cast("Any", kind), bytes.fromhex(text))
            for kind, text in zip(types, texts, strict=True)
        )
    )


def _levels(table: TableColumns, record: Record) -> Iterator[str]:
    """The names of a partition's folders. Two partitions never have the same, also not a null and the text 'null'."""
    for place, each in enumerate(table.spec.fields):
        name, value = quote(each.name, safe=""), record[place]
        if value is None:
            yield f"{name}-is-null"
            continue
        kind = table.schema.find_field(each.source_id).field_type
        text = quote(transform_of(each).to_human_string(kind, value), safe="")
        level = f"{name}={text}"
        yield level if len(level) <= _LEVEL_AT_MOST else f"{level[:50]}~{sha256(text.encode()).hexdigest()[:32]}"


def _moments_out_of_range(table: TableColumns, batch: pa.RecordBatch) -> Iterator[RowRefused]:
    """Rows whose partition the library cannot name: it makes Python's dates of days and microseconds."""
    for name in {table.schema.find_field(each.source_id).name for each in table.spec.fields} & {*batch.schema.names}:
        column = columns_of(batch)[batch.schema.names.index(name)]
        limits = _limits_of(column.type)
        if limits is None:
            continue
        number = column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
        outside = _compute.or_(_compute.less(number, limits[0]), _compute.greater(number, limits[1]))
        for row in rows_where(outside):
            yield RowRefused(
                row=row,
                column=name,
                expected=f"a moment of the years 1 to 9999 in partition column {name!r}",
                found="another one",
                next_step="leave such rows out with where=, or partition by another column",
            )


def _limits_of(kind: pa.DataType) -> tuple[int, int] | None:
    """The first and the last number of these years, in the unit of the type: days or microseconds."""
    days = [(each - date(1970, 1, 1)).days for each in (date.min, date.max)]
    if pa.types.is_date32(kind):
        return days[0], days[1]
    return (days[0] * _DAY_US, (days[1] + 1) * _DAY_US - 1) if pa.types.is_timestamp(kind) else None


def _joined(keys: list[Any]) -> Any:
    """One key for each row. Two rows have the same one if they are in the same partition."""
    places = [key.dictionary_encode("encode").indices.cast(pa.string()) for key in keys]
    return _compute.binary_join_element_wise(*places, "/")


def _counts(encoded: Any) -> list[int]:
    counted = _compute.value_counts(encoded.indices)
    by_index = dict(zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True))
    return [by_index[index] for index in sorted(by_index)]


def _demanded(columns: TableColumns | None) -> TableColumns:
    if columns is None:
        raise RuntimeError("rows for a table that was not opened")
    return columns
