"""The types of an Iceberg table, and whether a table holds rows of a schema unchanged.

Source: the sections "Schemas and Data Types" and "Schema Evolution" of iceberg.apache.org/spec.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any, TypeAlias, cast

import pyarrow as pa
from pyiceberg.exceptions import ResolveError
from pyiceberg.schema import Schema, promote
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from tidegate.sinks.arrow import fields_in, fields_of
from tidegate.sinks.nested import element_of, is_list
from tidegate.sinks.value_table import SparkType, kind_of

ColumnFlaw: TypeAlias = tuple[str, str, str]
"""A place in the rows, the type that it has, and what the table has there."""


def iceberg_schema(schema: pa.Schema) -> Schema:
    """The schema of a table for rows of this schema, with new field ids. Every column may be null: a later program may
    leave it out.
    """
    ids = count(1)
    columns = [(field.name, next(ids), field.type) for field in fields_of(schema)]
    return Schema(*(NestedField(number, name, _type_of(kind, ids), required=False) for name, number, kind in columns))


def flaws_of(rows: IcebergType, table: IcebergType, path: str) -> Iterator[ColumnFlaw]:
    """The places where a table's column would change values of the rows, or be left without a value that it needs."""
    if isinstance(rows, StructType) and isinstance(table, StructType):
        yield from _of_structs(rows, table, path)
    elif isinstance(rows, ListType) and isinstance(table, ListType):
        yield from flaws_of(rows.element_type, table.element_type, f"{path}[]")
        yield from _of_nulls(rows.element_required, table.element_required, f"{path}[]")
    elif isinstance(rows, MapType) and isinstance(table, MapType):
        yield from flaws_of(rows.key_type, table.key_type, f"{path}.key")
        yield from flaws_of(rows.value_type, table.value_type, f"{path}.value")
        yield from _of_nulls(rows.value_required, table.value_required, f"{path}.value")
    elif not holds(rows, table):
        yield path, str(rows), str(table)


def holds(rows: IcebergType, table: IcebergType) -> bool:
    """True if a column of the table's type holds each value of the rows' plain type: the promotions of the format."""
    if not rows.is_primitive or not table.is_primitive or rows == table:
        return rows == table
    try:
        return promote(rows, table) == table
    except ResolveError:
        return False


def _of_structs(rows: StructType, table: StructType, path: str) -> Iterator[ColumnFlaw]:
    mine, theirs = ({field.name: field for field in each.fields} for each in (rows, table))
    for name in sorted(mine.keys() ^ theirs.keys()):
        held = [str(each[name].field_type) if name in each else "no such field" for each in (mine, theirs)]
        yield f"{path}.{name}", held[0], held[1]
    for name in mine.keys() & theirs.keys():
        yield from flaws_of(mine[name].field_type, theirs[name].field_type, f"{path}.{name}")
        yield from _of_nulls(mine[name].required, theirs[name].required, f"{path}.{name}")


def _of_nulls(in_rows: bool, in_table: bool, path: str) -> Iterator[ColumnFlaw]:
    """Both say whether a value is required."""
    if in_table and not in_rows:
        yield path, "a value that may be null", "required"


def _type_of(kind: pa.DataType, ids: Iterator[int]) -> IcebergType:
    """The type of a table's column for values of an Arrow type that `Target.ICEBERG` takes."""
    found = kind_of(kind)
    if found is SparkType.STRUCT:
        fields = [(field, next(ids)) for field in fields_in(kind)]
        return StructType(
            *(
                NestedField(number, field.name, _type_of(field.type, ids), required=not field.nullable)
                for field, number in fields
            )
        )
    if pa.types.is_map(kind):
        key, value = next(ids), next(ids)
        required = not cast("Any", kind).item_field.nullable
        return MapType(key, _type_of(kind.key_type, ids), value, _type_of(kind.item_type, ids), required)
    if is_list(kind):
        element, required = next(ids), not cast("Any", kind).value_field.nullable
        return ListType(element, _type_of(element_of(kind), ids), required)
    if found is SparkType.DECIMAL:
        return DecimalType(cast("Any", kind).precision, cast("Any", kind).scale)
    if found is SparkType.INTEGER:
        return IntegerType() if cast("Any", kind).bit_width <= _INTEGER_BITS else LongType()
    return _TYPES[found]()


_INTEGER_BITS = 32
_TYPES: Mapping[SparkType, Callable[[], IcebergType]] = {
    SparkType.BOOLEAN: BooleanType,
    SparkType.FLOAT: FloatType,
    SparkType.DOUBLE: DoubleType,
    SparkType.STRING: StringType,
    SparkType.BINARY: BinaryType,
    SparkType.DATE: DateType,
    SparkType.TIMESTAMP: TimestamptzType,
    SparkType.TIMESTAMP_NTZ: TimestampType,
}
