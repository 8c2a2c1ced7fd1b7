"""Finds types that Arrow does not show, and duplicate names.

It checks Spark's own types, before Arrow: there a variant is a struct of two binaries, an empty `map()` an error about
nulls, and two fields of one name fail at the first row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql.types import ArrayType, DataType, MapType, StructType, UserDefinedType

from tidegate.core.errors import Code, TidegateError
from tidegate.sinks.value_table import SparkType, nowhere, refusal

KINDS: Mapping[str, SparkType] = {
    "BooleanType": SparkType.BOOLEAN,
    "ByteType": SparkType.INTEGER,
    "ShortType": SparkType.INTEGER,
    "IntegerType": SparkType.INTEGER,
    "LongType": SparkType.INTEGER,
    "FloatType": SparkType.FLOAT,
    "DoubleType": SparkType.DOUBLE,
    "DecimalType": SparkType.DECIMAL,
    "StringType": SparkType.STRING,
    "CharType": SparkType.STRING,
    "VarcharType": SparkType.STRING,
    "BinaryType": SparkType.BINARY,
    "DateType": SparkType.DATE,
    "TimestampType": SparkType.TIMESTAMP,
    "TimestampNTZType": SparkType.TIMESTAMP_NTZ,
    "TimeType": SparkType.TIME,
    "ArrayType": SparkType.ARRAY,
    "StructType": SparkType.STRUCT,
    "MapType": SparkType.MAP,
    "VariantType": SparkType.VARIANT,
    "DayTimeIntervalType": SparkType.DAY_TIME_INTERVAL,
    "YearMonthIntervalType": SparkType.YEAR_MONTH_INTERVAL,
    "CalendarIntervalType": SparkType.CALENDAR_INTERVAL,
    "NullType": SparkType.VOID,
    "GeometryType": SparkType.GEOMETRY,
    "GeographyType": SparkType.GEOGRAPHY,
}
"""By the names of pyspark's classes: an older Spark lacks some of them."""


def kind_of(kind: DataType) -> SparkType:
    """The row of the table for a type of Spark."""
    if isinstance(kind, StructType) and not kind.fields:
        return SparkType.EMPTY_STRUCT
    if isinstance(kind, UserDefinedType):
        return kind_of(kind.sqlType())
    return KINDS.get(type(kind).__name__, SparkType.OTHER)


def violations(schema: StructType, where: str) -> Iterator[TidegateError]:
    """The types in this schema that no sink can take, at any depth."""
    yield from duplicates(schema.names, "columns", where)
    for field in schema:
        yield from _violations(field.dataType, field.name, where)


def duplicates(names: Sequence[str], what: str, where: str) -> Iterator[TidegateError]:
    """Names that occur twice, in exactly the same letters. Each sink decides if `a` and `A` are different."""
    for name in (name for name, times in Counter(names).items() if times > 1):
        yield TidegateError(
            Code.SCHEMA_MISMATCH,
            expected=f"{what} with a name of their own",
            found=f"{name!r} more than once",
            where=where,
            next_step="rename them in select=[...], or before, with .withColumnRenamed or .toDF",
        )


def _violations(kind: DataType, path: str, where: str) -> Iterator[TidegateError]:
    found = nowhere(kind_of(kind))
    if found is not None:
        yield refusal(path, kind.simpleString(), "anything", found.instead, where)
    elif isinstance(kind, UserDefinedType):
        yield from _violations(kind.sqlType(), path, where)
    elif isinstance(kind, StructType):
        yield from duplicates(kind.names, f"fields of {path!r}", where)
        for field in kind:
            yield from _violations(field.dataType, f"{path}.{field.name}", where)
    elif isinstance(kind, ArrayType):
        yield from _violations(kind.elementType, f"{path}[]", where)
    elif isinstance(kind, MapType):
        yield from _violations(kind.keyType, f"{path}.key", where)
        yield from _violations(kind.valueType, f"{path}.value", where)
