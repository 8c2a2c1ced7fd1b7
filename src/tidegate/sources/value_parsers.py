"""The parsers of values: JSON objects, CSV lines, texts.

pyarrow's readers parse lines, so the values are joined by newlines. Each value must give exactly one row:

- A JSON value must begin with `{` and end with `}`. Between `}` and `{` of two values an object cannot continue, and a
  newline is not allowed in a text. So each value gives at least one row if the whole parses.
- A CSV value must have no line break. So no value gives two rows.

If the number of rows is that of the values, each value has its own row.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, cast

import msgspec
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json

from tidegate.arrays import binaries
from tidegate.core.json_formats import Unreadable, parsed
from tidegate.sources.value_parsing import ValueParser

_arrow = cast("Any", pa)


@dataclass(frozen=True, slots=True)
class _FieldsParser(ValueParser):
    """A parser whose rows are structs. `schema`: their fields. `used`: the names of the fields to parse."""

    schema: pa.Schema
    used: frozenset[str]

    def only(self, fields: frozenset[str]) -> ValueParser:
        return replace(self, used=self.used & fields)

    def nulls(self, count: int) -> pa.Array[Any]:
        return _arrow.nulls(count, _arrow.struct(_fields(self.schema)))

    def _struct(self, table: pa.Table, count: int) -> pa.Array[Any]:
        """The columns of `table`, one row for each of `count` values, as structs. Raises ValueError otherwise."""
        if table.num_rows != count:
            raise ValueError("not one row a value")
        columns: list[Any] = [
            _whole(table.column(field.name)).cast(field.type)
            if field.name in self.used
            else _arrow.nulls(count, field.type)
            for field in _fields(self.schema)
        ]
        for column in columns:
            column.validate(full=True)  # pyarrow's JSON reader does not look whether a text is UTF-8
        return _arrow.StructArray.from_arrays(columns, fields=_fields(self.schema))


@dataclass(frozen=True, slots=True)
class JSONParser(_FieldsParser):
    """Parses JSON objects, one a value."""

    def suspects(self, values: Sequence[bytes]) -> frozenset[int]:
        found: set[int] = set()
        hint = _hint_of(_fields(self.schema))
        for row, value in enumerate(values):
            try:
                parsed(value, hint)
            except Unreadable:
                found.add(row)
        return frozenset(found)

    def columns(self, values: Sequence[bytes]) -> pa.Array[Any]:
        if not _are_objects(values):
            values = [value.strip(b" \t\r\n") for value in values]
            if not _are_objects(values):
                raise ValueError("not a JSON object")
        text = b"\n".join(values)
        wanted = _arrow.schema([_read_as(field) for field in _fields(self.schema) if field.name in self.used])
        table = pa_json.read_json(
            io.BytesIO(text),
            read_options=pa_json.ReadOptions(use_threads=False, block_size=_block(text)),
            parse_options=pa_json.ParseOptions(explicit_schema=wanted, unexpected_field_behavior="ignore"),
        )
        return self._struct(table, len(values))


@dataclass(frozen=True, slots=True)
class CSVParser(_FieldsParser):
    """Parses CSV lines, one a value. A field without characters is a null; one with quotes alone is an empty text."""

    delimiter: str = ","

    def columns(self, values: Sequence[bytes]) -> pa.Array[Any]:
        names = self.schema.names
        if len(names) > 1 and b"" in values:
            raise ValueError("an empty line")
        # The last line has no value. A quote that is not closed would take it in, and so there is a row too few.
        text = b"\n".join([*values, self.delimiter.encode() * (len(names) - 1), b""])
        if text.count(b"\n") != len(values) + 1 or b"\r" in text:
            raise ValueError("a line break")
        table = pa_csv.read_csv(
            io.BytesIO(text),
            read_options=pa_csv.ReadOptions(column_names=names, use_threads=False, block_size=_block(text)),
            parse_options=pa_csv.ParseOptions(delimiter=self.delimiter, ignore_empty_lines=False),
            convert_options=pa_csv.ConvertOptions(
                column_types=self.schema,
                include_columns=[name for name in names if name in self.used],
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        if table.num_rows != len(values) + 1:
            raise ValueError("a quote that is not closed")
        return self._struct(table.slice(0, len(values)), len(values))


@dataclass(frozen=True, slots=True)
class TextParser(ValueParser):
    """Takes each value as a text in UTF-8."""

    def only(self, fields: frozenset[str]) -> ValueParser:
        return self

    def nulls(self, count: int) -> pa.Array[Any]:
        return pa.nulls(count, pa.string())

    def columns(self, values: Sequence[bytes]) -> pa.Array[Any]:
        texts = binaries(values, pa.string())
        texts.validate(full=True)
        return texts


def _hint_of(fields: Sequence[pa.Field[Any]]) -> Any:
    """A type of msgspec that takes nearly the same objects as pyarrow's reader."""
    hints = [next((hint for fits, hint in _HINTS if fits(field.type)), Any) for field in fields]
    known = [(f"field{number}", hint, None) for number, hint in enumerate(hints)]
    rename = {mine: field.name for (mine, _, _), field in zip(known, fields, strict=True)}
    return msgspec.defstruct("Hint", known, rename=rename, gc=False)


_HINTS: Sequence[tuple[Callable[[pa.DataType], bool], Any]] = (
    (pa.types.is_boolean, bool | None),
    (pa.types.is_integer, int | None),
    (pa.types.is_floating, float | None),
    (pa.types.is_string, str | None),
    (pa.types.is_temporal, str | None),
)


def _are_objects(values: Sequence[bytes]) -> bool:
    """True if each value begins with `{` and ends with `}`."""
    try:
        return set(map(itemgetter(0), values)) == {ord("{")} and set(map(itemgetter(-1), values)) == {ord("}")}
    except IndexError:  # an empty value
        return False


def _fields(schema: pa.Schema) -> list[pa.Field[Any]]:
    return [cast("Any", schema).field(index) for index in range(len(schema))]


def _read_as(field: pa.Field[Any]) -> pa.Field[Any]:
    """The field as pyarrow's JSON reader reads it: it has no dates, so they are read as texts and then cast."""
    return pa.field(field.name, _kind_read(field.type))


def _kind_read(kind: Any) -> pa.DataType:
    if pa.types.is_date(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return _arrow.list_(pa.field(kind.value_field.name, _kind_read(kind.value_field.type)))
    if pa.types.is_struct(kind):
        return _arrow.struct([_read_as(cast("Any", kind).field(index)) for index in range(kind.num_fields)])
    return kind


def _whole(column: pa.ChunkedArray[Any]) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _block(text: bytes) -> int:
    """The size of the parser's block: a row must not lie across two of them."""
    return len(text) + 1
