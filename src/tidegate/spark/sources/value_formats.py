"""The formats of a record's value: what a program gives as `value=` to a source of records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import Literal, cast

from pyspark.errors import PySparkException
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from tidegate.core.spelling import did_you_mean
from tidegate.sources.value_parsers import CSVParser, JSONParser, TextParser
from tidegate.sources.value_parsing import UnparsedValues, ValueParser, ValueParsing
from tidegate.spark.arrow_schema import arrow_schema
from tidegate.spark.sources.refusals import refused_by_spark, unfit_option

_PLAIN = (
    *(BooleanType, IntegralType, FloatType, DoubleType, DecimalType, StringType),
    *(DateType, TimestampType, TimestampNTZType),
)


@dataclass(frozen=True, kw_only=True)
class ValueFormat(ABC):
    """The format of values. `unparsed`: the treatment of a value that does not parse.

    "refuse": its epoch fails with TG-ROW-UNPARSED. "null": the row has a null value. "dead-letters": also a null, and
    the text of the value is in the column `_tidegate_unparsed`; `Job.query(..., dead_letters=...)` writes it from there
    to the dead letters.
    """

    unparsed: Literal["refuse", "null", "dead-letters"] = "refuse"

    @abstractmethod
    def kind(self, where: str) -> DataType:
        """The type of the column `value`. Raises SOURCE_OPTION if the format cannot have it."""

    @abstractmethod
    def parser(self, where: str) -> ValueParser:
        """The parser of values."""

    def parsing(self, where: str) -> ValueParsing:
        """What the tasks need. Raises SOURCE_OPTION for an option with a wrong value."""
        known = [each.value for each in UnparsedValues]
        if self.unparsed not in known:
            expected = f"unparsed= one of {', '.join(known)}"
            step = did_you_mean(self.unparsed, known, "")
            raise unfit_option(expected, repr(self.unparsed), where, step)
        return ValueParsing(self.parser(where), UnparsedValues(self.unparsed))


@dataclass(frozen=True)
class JSON(ValueFormat):
    """Each value is a JSON object; the column `value` is a struct with the fields of `schema`.

    `schema`: Spark's DDL ("id BIGINT, name STRING") or a `StructType`. Other fields of an object are ignored, and a
    missing field is null. A value must have the type of its field: 1.5 or "1" is no BIGINT. Dates are "2026-01-31";
    timestamps "2026-01-31T23:59:59Z", in UTC if they have no zone; decimals are numbers or texts. Maps and binary are
    not possible.
    """

    schema: str | StructType

    def kind(self, where: str) -> StructType:
        return _fields(self.schema, where, nested=True)

    def parser(self, where: str) -> ValueParser:
        schema = arrow_schema(self.kind(where))
        return JSONParser(schema, frozenset(schema.names))


@dataclass(frozen=True)
class CSV(ValueFormat):
    """Each value is one CSV line without a header; the column `value` is a struct with the fields of `schema`, in their
    order.

    `schema`: Spark's DDL or a `StructType`, of plain types. `delimiter`: one character. A field without characters is
    null, and `""` is an empty text. A value with a line break does not parse.
    """

    schema: str | StructType
    delimiter: str = ","

    def kind(self, where: str) -> StructType:
        return _fields(self.schema, where, nested=False)

    def parser(self, where: str) -> ValueParser:
        if len(self.delimiter) != 1 or not self.delimiter.isascii() or self.delimiter in '"\r\n':
            raise unfit_option(
                "delimiter= one ASCII character, no quote and no line break", repr(self.delimiter), where
            )
        schema = arrow_schema(self.kind(where))
        return CSVParser(schema, frozenset(schema.names), self.delimiter)


@dataclass(frozen=True)
class Text(ValueFormat):
    """Each value is a text in UTF-8; the column `value` is a string."""

    def kind(self, where: str) -> StringType:
        return StringType()

    def parser(self, where: str) -> ValueParser:
        return TextParser()


@cache
def _parsed_ddl(schema: str) -> StructType:
    return cast("StructType", StructType.fromDDL(schema))


def _fields(schema: str | StructType, where: str, *, nested: bool) -> StructType:
    if isinstance(schema, str):
        try:
            schema = _parsed_ddl(schema)
        except PySparkException as error:
            raise refused_by_spark(
                "a schema in Spark's DDL", error, where, 'write it as "id BIGINT, name STRING"'
            ) from None
    if not schema.fields:
        raise unfit_option("a schema with fields", "none", where)
    for field in schema.fields:
        unfit = _unfit(field.dataType, nested=nested)
        if unfit is not None:
            raise unfit_option(
                f"a type that the format can have, for field {field.name!r}",
                unfit.simpleString(),
                where,
                "declare the field as STRING, or leave value= out and parse the bytes with Spark's functions",
            )
    return _all_may_be_null(schema)


def _unfit(kind: DataType, *, nested: bool) -> DataType | None:
    """The type in `kind` that the format cannot have."""
    match kind:
        case StructType() if nested:
            return next((found for each in kind.fields if (found := _unfit(each.dataType, nested=True))), None)
        case ArrayType() if nested:
            return _unfit(kind.elementType, nested=True)
        case _:
            return None if isinstance(kind, _PLAIN) else kind


def _all_may_be_null(schema: StructType) -> StructType:
    """The schema without NOT NULL: any field may be missing in a value."""

    def nullable(kind: DataType) -> DataType:
        match kind:
            case StructType():
                return _all_may_be_null(kind)
            case ArrayType():
                return ArrayType(nullable(kind.elementType))
            case _:
                return kind

    return StructType([StructField(each.name, nullable(each.dataType)) for each in schema.fields])
