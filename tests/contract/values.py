"""Values of every type in every container, written through every sink and read back with a user's own tools.

Values are neutral here: days and microseconds as whole numbers (Python's datetime cannot hold them all), a map as a
list of pairs, a struct as a dict. What a reader gives is parsed by code of this module alone, never by the product's.
"""

from __future__ import annotations

import base64
import json
import math
import sqlite3
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from tests.support.kafka_rows import RowsOfKafka
from tidegate.core.records import Outcome
from tidegate.kafka.checks import layout_of
from tidegate.kafka.sink import KafkaSink
from tidegate.sinks.base import SinkPlan, TwoPhaseSink
from tidegate.sinks.files import FileSink
from tidegate.sinks.sqlite import SQLiteSink
from tidegate.sinks.value_table import Target, violations
from tidegate.testing.contract import IDENTITY, attempt_of

UTC, LOCAL = pa.timestamp("us", "America/Los_Angeles"), pa.timestamp("us")
TYPES: Mapping[str, tuple[pa.DataType | None, Sequence[Any]]] = {
    "boolean": (pa.bool_(), [True, False]),
    "tinyint": (pa.int8(), [-128, 127]),
    "smallint": (pa.int16(), [-(2**15), 2**15 - 1]),
    "int": (pa.int32(), [-(2**31), 2**31 - 1]),
    "bigint": (pa.int64(), [-(2**63), 2**63 - 1]),
    "float": (pa.float32(), [struct.unpack("f", struct.pack("f", 0.1))[0], math.inf, -math.inf, 1e-45]),
    "double": (pa.float64(), [0.1, math.inf, -math.inf, 5e-324, 1.7976931348623157e308]),
    "decimal(1,0)": (pa.decimal128(1, 0), [Decimal(-9), Decimal(9)]),
    "decimal(10,2)": (pa.decimal128(10, 2), [Decimal("1.50"), Decimal("-99999999.99")]),
    "decimal(38,18)": (pa.decimal128(38, 18), [Decimal("1E-18"), Decimal("99999999999999999999.999999999999999999")]),
    "decimal(38,38)": (pa.decimal128(38, 38), [Decimal("1E-38"), Decimal("0." + "9" * 38)]),
    "string": (pa.string(), ["", 'a"ä€😀\\', "\0\t", "null", "2026-01-01", "%41=/", " a "]),
    "binary": (pa.binary(), [b"", b"\0\xff\xfe"]),
    "date": (pa.date32(), [0, -719_529, 2_932_896, 2_932_897, 2**31 - 1, -(2**31)]),
    "timestamp": (UTC, [0, 253_402_300_799_999_999, 253_402_300_800_000_000, 2**63 - 1, -(2**63)]),
    "timestamp_ntz": (LOCAL, [1, -62_135_596_800_000_001, 2**63 - 1, -(2**63)]),
    "time": (pa.time64("ns"), [0, 1, 86_399_999_999_000]),
    "struct<>": (pa.struct([]), []),
    "variant": (None, []),
    "interval day to second": (pa.duration("us"), []),
    "interval year to month": (None, []),
    "interval": (pa.month_day_nano_interval(), []),
    "void": (pa.null(), []),
    "geometry": (None, []),
    "geography": (None, []),
    "any other": (pa.uint64(), []),
}
"""Every type of Spark's as it arrives in Arrow (None: not as itself, so it is refused before) and its edges."""

Column = Any  # Arrow's arrays are mostly unknown to a type checker
_IN: Mapping[str, Callable[[pa.DataType], pa.DataType]] = {
    "itself": lambda kind: kind,
    "array": pa.list_,
    "struct": lambda kind: pa.struct([("f", kind)]),
    "map value": lambda kind: pa.map_(pa.string(), kind),
    "map key": lambda kind: pa.map_(kind, pa.int32()),
}
CONTAINERS = tuple(_IN)


# --- columns of neutral values -----------------------------------------------------------------------------


def contained(type_name: str, container: str) -> Column | None:
    """The edges of a type in a container, one a row and a null behind them; None for what Arrow does not show."""
    kind, edges = TYPES[type_name]
    if kind is None or (pa.types.is_null(kind) and container == "map key"):
        return None
    return column_of(kind, container, [*edges, None] if edges else [])


def column_of(kind: pa.DataType, container: str, values: Sequence[Any]) -> Column:
    """A column that holds each value in a container of its own (a null in a key is a row without a map)."""
    anything: Any = pa
    offsets, count = pa.array(range(len(values) + 1), pa.int32()), len(values)
    if container == "itself":
        return _plain(kind, values)
    if container == "array":
        return anything.ListArray.from_arrays(offsets, _plain(kind, values), type=pa.list_(kind))
    if container == "struct":
        return anything.StructArray.from_arrays([_plain(kind, values)], ["f"])
    if container == "map value":
        return anything.MapArray.from_arrays(offsets, pa.array(["k"] * count, pa.string()), _plain(kind, values))
    keys = _plain(kind, [value for value in values if value is not None])
    ends = np.cumsum([0, *(0 if value is None else 1 for value in values)]).astype("int32")
    mask = pa.array([value is None for value in values], pa.bool_())
    items = pa.array([7] * len(keys), pa.int32())
    return anything.MapArray.from_arrays(pa.array(ends), keys, items, type=pa.map_(kind, pa.int32()), mask=mask)


def _plain(kind: pa.DataType, values: Sequence[Any]) -> Column:
    if pa.types.is_date(kind):
        return pa.array(values, pa.int32()).view(kind)
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        return pa.array(values, pa.int64()).view(kind)
    return pa.array(values, kind)


def neutral(column: Column) -> list[Any]:
    return [_neutral(scalar) for scalar in column]


def _neutral(scalar: Any) -> Any:
    kind = scalar.type
    if not scalar.is_valid:
        return None
    if pa.types.is_temporal(kind):
        return scalar.value
    if pa.types.is_struct(kind):
        return {name: _neutral(scalar[name]) for name in scalar}
    if pa.types.is_map(kind):
        return [(_neutral(entry["key"]), _neutral(entry["value"])) for entry in scalar.values]
    if pa.types.is_list(kind):
        return [_neutral(each) for each in scalar.values]
    return scalar.as_py()


# --- what a reader gives, as neutral values ----------------------------------------------------------------


def of_text(kind: pa.DataType, text: str) -> Any:
    """A plain value of `kind` that stands as a text of its own."""
    if pa.types.is_boolean(kind):
        return {"true": True, "false": False}[text]
    if pa.types.is_integer(kind):
        return int(text)
    if pa.types.is_floating(kind):
        return _float(kind, float(text))
    if pa.types.is_decimal(kind):
        return Decimal(text)
    if pa.types.is_binary(kind):
        return base64.b64decode(text, validate=True)
    if pa.types.is_date(kind):
        return _days(text)
    if pa.types.is_timestamp(kind):
        day, _, time = text.partition("T")
        assert time.endswith("Z") is (kind.tz is not None), text
        return _days(day) * 86_400_000_000 + _nanoseconds(time.removesuffix("Z")) // 1000
    return _nanoseconds(text) if pa.types.is_time(kind) else text


def of_json(kind: pa.DataType, value: Any) -> Any:
    """A value of `kind` as a JSON parser gives it, with Decimal for fractions."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: of_json(field.type, value.get(field.name)) for field in kind.fields}
    if pa.types.is_map(kind):
        return [(of_text(kind.key_type, key), of_json(kind.item_type, item)) for key, item in value.items()]
    if pa.types.is_list(kind):
        return [of_json(kind.value_type, each) for each in value]
    if isinstance(value, str):
        return of_text(kind, value)
    assert pa.types.is_boolean(kind) is isinstance(value, bool)
    return _float(kind, float(value)) if pa.types.is_floating(kind) else value


def _days(text: str) -> int:
    year, month, day = text.rsplit("-", 2)
    assert len(year.lstrip("+-")) >= 4, text
    months = (int(year) - 1970) * 12 + int(month) - 1
    return int(np.datetime64(months, "M").astype("datetime64[D]").astype("int64")) + int(day) - 1


def _nanoseconds(text: str) -> int:
    hours, minutes, seconds = text.split(":")
    whole, fraction = seconds.split(".")
    assert len(fraction) in (6, 9), text
    return (int(hours) * 3600 + int(minutes) * 60 + int(whole)) * 10**9 + int(fraction.ljust(9, "0"))


def _float(kind: pa.DataType, value: float) -> float:
    return float(np.float32(value)) if pa.types.is_float32(kind) else value


def same(left: Any, right: Any) -> bool:
    """Equal values; a NaN is equal to a NaN."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, tuple) and isinstance(right, tuple):
        return all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return left == right or (isinstance(left, float) and math.isnan(left) and math.isnan(right))


# --- the sinks ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ValueSink:
    """A sink, the place in the table where its column `v` stands, and how a user reads that column, ordered by `id`."""

    target: Target
    make: Callable[[Path], TwoPhaseSink]
    read: Callable[[Path, pa.DataType], list[Any]]
    nulls: tuple[Any, ...] = (None,)
    """Values that come back as a null."""


def is_taken(sink: ValueSink, kind: pa.DataType) -> bool:
    return not list(violations(pa.schema([("v", kind)]), sink.target, "sink"))


def cycled(sink: ValueSink, column: Column, folder: Path) -> str | None:
    """Write the column and read it back; what is wrong with it, or None."""
    whole = np.arange(len(column))
    batch = pa.RecordBatch.from_arrays([column, pa.array(whole)], names=["v", "id"])
    made = sink.make(folder)
    refused = {each.row for each in made.refused(_for(sink, batch))}
    kept = batch.take(pa.array([row for row in range(len(column)) if row not in refused], pa.int64()))
    if kept.num_rows == 0:
        return None
    if isinstance(made, KafkaSink):
        found = _messages(made, _for(sink, kept))
        read = [None if text is None else _of_message(made, column.type, text) for text in found]
    else:
        _commit(made, _for(sink, kept))
        read = sink.read(folder, column.type)
    wanted = [None if each in sink.nulls else each for each in neutral(kept.column(0))]
    wrong = [(left, right) for left, right in zip(wanted, read, strict=True) if not same(left, right)]
    return f"written {wrong[0][0]!r}, read {wrong[0][1]!r}" if wrong else None


def _for(sink: ValueSink, batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.select(["v"]) if sink.target is Target.TEXT else batch


def _commit(sink: TwoPhaseSink, batch: pa.RecordBatch) -> None:
    plan = SinkPlan(identity=IDENTITY, schema=batch.schema, mode="append", local_master=True, read_journal=lambda _: ())
    sink.open(plan)
    transaction = sink.begin(attempt_of())
    transaction.write(batch)
    committable = transaction.pre_commit()
    assert committable is not None
    assert [answer.outcome for answer in sink.commit([committable])] == [Outcome.COMMITTED]


def _messages(sink: KafkaSink, batch: pa.RecordBatch) -> list[bytes | None]:
    (found,) = layout_of(sink, batch.schema).messages(batch).values()
    return [message["value"] for message in found]


def _of_message(sink: KafkaSink, kind: pa.DataType, value: bytes) -> Any:
    if sink.format == "json":
        return of_json(kind, json.loads(value, parse_float=Decimal).get("v"))
    return value if pa.types.is_binary(kind) else of_text(kind, value.decode())


def _from_sqlite(folder: Path, kind: pa.DataType) -> list[Any]:
    with closing(sqlite3.connect(folder / "t.db")) as reader:
        found = [value for (value,) in reader.execute("SELECT v FROM t ORDER BY id")]
    as_it_is = pa.types.is_binary(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if pa.types.is_boolean(kind):
        return [None if value is None else {0: False, 1: True}[value] for value in found]
    return found if as_it_is else [None if value is None else of_text(kind, value) for value in found]


def _from_json(folder: Path, kind: pa.DataType) -> list[Any]:
    (file,) = (folder / "out").glob("*.json")
    rows = [json.loads(line, parse_float=Decimal) for line in file.read_text("utf-8").split("\n")[:-1]]
    return [of_json(kind, row.get("v")) for row in rows]


def _from_parquet(folder: Path, kind: pa.DataType) -> list[Any]:
    (file,) = (folder / "out").glob("*.parquet")
    return neutral(pq.ParquetFile(file).read().column("v"))


def _from_csv(folder: Path, kind: pa.DataType) -> list[Any]:
    (file,) = (folder / "out").glob("*.csv")
    convert = pyarrow.csv.ConvertOptions(
        column_types={"v": pa.string()}, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    texts = pyarrow.csv.read_csv(file, parse_options=parse, convert_options=convert).column("v").to_pylist()
    return [None if text is None else of_text(kind, text) for text in texts]


def _from_text(folder: Path, kind: pa.DataType) -> list[Any]:
    (file,) = (folder / "out").glob("*.txt")
    return file.read_bytes().decode().split("\n")[:-1]


def _from_folders(folder: Path, kind: pa.DataType) -> list[Any]:
    found: dict[Any, Any] = {}
    for file in (folder / "out").glob("v=*/*.parquet"):
        text = unquote(file.parent.name.removeprefix("v="))
        value = None if text == "__HIVE_DEFAULT_PARTITION__" else of_text(kind, text)
        found.update(dict.fromkeys(pq.ParquetFile(file).read().column("id").to_pylist(), value))
    return [found[number] for number in sorted(found)]


def _files(**options: Any) -> Callable[[Path], TwoPhaseSink]:
    return lambda folder: FileSink("out", folder / "out", **options)


SINKS: Mapping[str, ValueSink] = {
    "SQLite": ValueSink(Target.SQLITE, lambda folder: SQLiteSink("out", folder / "t.db", table="t"), _from_sqlite),
    "JSON": ValueSink(Target.JSON, _files(format="json"), _from_json),
    "Kafka JSON": ValueSink(Target.JSON, lambda _: RowsOfKafka("out", "none:1", topic="t"), lambda folder, kind: []),
    "Parquet": ValueSink(Target.PARQUET, _files(), _from_parquet),
    "CSV": ValueSink(Target.CSV, _files(format="csv", header=True), _from_csv),
    "text": ValueSink(Target.TEXT, _files(format="text"), _from_text),
    "Kafka raw": ValueSink(
        Target.BYTES,
        lambda _: RowsOfKafka("out", "none:1", topic="t", format="raw", value="v"),
        lambda folder, kind: [],
    ),
    "folder": ValueSink(Target.FOLDER, _files(partition_by="v"), _from_folders, nulls=(None, "")),
}
