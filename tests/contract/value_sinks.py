"""Every sink with a tool of its user's that reads it back. What that gives is parsed by code of this module alone."""

from __future__ import annotations

import base64
import io
import json
import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, redirect_stdout
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from deltalake import DeltaTable

from tests.contract.values import Unwritable, column_of, expected, fields_of, neutral, same
from tests.support.iceberg import properties_in
from tests.support.kafka_rows import RowsOfKafka
from tidegate.core.records import Committable, JournalRef, Outcome
from tidegate.sinks.base import SinkPlan, TwoPhaseSink
from tidegate.sinks.delta.sink import DeltaSink
from tidegate.sinks.files.sink import FileSink
from tidegate.sinks.iceberg.sink import IcebergSink
from tidegate.sinks.kafka.declared import layout_of
from tidegate.sinks.kafka.sink import KafkaSink
from tidegate.sinks.printing import PrintSink
from tidegate.sinks.sqlite.sink import SQLiteSink
from tidegate.sinks.value_table import Target, violations
from tidegate.testing.contract import IDENTITY, attempt_of

Kinds = Mapping[str, pa.DataType]
Found = dict[str, list[Any]]


@dataclass(frozen=True)
class ValueSink:
    """A sink, the place in the table where its columns stand, and how a user writes and reads them.

    `cycle` writes a batch and gives the columns that its reader finds, in the order of column `id`. `given` is what the
    reader must find for a value whose texts are valid: it raises Unwritable where the row must be refused.
    """

    target: Target
    make: Callable[..., TwoPhaseSink]
    cycle: Callable[[TwoPhaseSink, pa.RecordBatch, Path, Kinds], Found]
    given: Callable[[pa.DataType, Any, bool], Any] = lambda kind, value, replace: value
    columns_at_most: int = 2


def is_taken(sink: ValueSink, kind: pa.DataType) -> bool:
    return not list(violations(pa.schema([("v", kind)]), sink.target, "sink"))


def cycled(
    sink: ValueSink, columns: Mapping[str, tuple[pa.DataType, Sequence[Any]]], folder: Path, *, replace: bool = False
) -> str | None:
    """Write the columns of neutral values and read them back; what is wrong with it, or None.

    `replace`: with the options that accept what is not UTF-8, and NaN.
    """
    kinds = {name: kind for name, (kind, _) in columns.items()}
    rows = list(zip(*(values for _, values in columns.values()), strict=True))
    made = sink.make(folder, replace)
    batch = _batch(sink, kinds, rows)
    wanted = {number: _wanted(sink, kinds, row, replace) for number, row in enumerate(rows)}
    refused = {each.row for each in made.refused(batch)}
    if refused != {number for number, row in wanted.items() if row is None}:
        return f"refused are the rows {refused} of {rows}"
    kept = [number for number in wanted if number not in refused]
    if not kept:
        return None
    found = sink.cycle(made, batch.take(pa.array(kept, pa.int64())), folder, kinds)
    for place, name in enumerate(kinds):
        right = [(wanted[number] or ())[place] for number in kept]
        if not same(right, found[name]):
            return f"column {name!r} ({kinds[name]}): written {right!r}, read {found[name]!r}"
    return None


def _wanted(sink: ValueSink, kinds: Kinds, row: Sequence[Any], replace: bool) -> list[Any] | None:
    pairs = list(zip(kinds.values(), row, strict=True))
    try:
        return [sink.given(kind, expected(kind, value, replace=replace), replace) for kind, value in pairs]
    except Unwritable:
        return None


def _batch(sink: ValueSink, kinds: Kinds, rows: Sequence[Sequence[Any]]) -> pa.RecordBatch:
    """The rows as the end of a longer batch: what stands before them is not theirs."""
    longer = [rows[-1], *rows]
    columns = [column_of(kind, [row[place] for row in longer]) for place, kind in enumerate(kinds.values())]
    names = list(kinds)
    if sink.target is not Target.TEXT:
        columns, names = [pa.array(range(len(longer)), pa.int64()), *columns], ["id", *names]
    return pa.RecordBatch.from_arrays(columns, names=names).slice(1)


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
        return {field.name: of_json(field.type, value.get(field.name)) for field in fields_of(kind)}
    if pa.types.is_map(kind):
        return [(of_text(kind.key_type, key), of_json(kind.item_type, item)) for key, item in value.items()]
    if pa.types.is_list(kind):
        return [of_json(kind.value_type, each) for each in value]
    if isinstance(value, str):
        return of_text(kind, value)
    assert pa.types.is_boolean(kind) is isinstance(value, bool)
    if pa.types.is_floating(kind):
        return _float(kind, float(value))
    return Decimal(value) if pa.types.is_decimal(kind) else value


def parsed(line: str | bytes) -> Any:
    """JSON, exactly; a name that stands twice in an object is no JSON."""
    return json.loads(line, parse_float=Decimal, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len({name for name, _ in pairs}) == len(pairs), pairs
    return dict(pairs)


def _of_texts(kinds: Kinds, columns: Mapping[str, list[str | None]]) -> Found:
    return {
        name: [None if text is None else of_text(kind, text) for text in columns[name]] for name, kind in kinds.items()
    }


def _of_objects(kinds: Kinds, rows: Sequence[Mapping[str, Any]]) -> Found:
    return {name: [of_json(kind, row.get(name)) for row in rows] for name, kind in kinds.items()}


def _days(text: str) -> int:
    year, month, day = text.rsplit("-", 2)
    assert re.fullmatch(r"\d{4}|[+-]\d{4,}", year), text
    months = (int(year) - 1970) * 12 + int(month) - 1
    return int(np.datetime64(months, "M").astype("datetime64[D]").astype("int64")) + int(day) - 1


def _nanoseconds(text: str) -> int:
    hours, minutes, seconds = text.split(":")
    whole, fraction = seconds.split(".")
    assert len(fraction) in (6, 9), text
    return (int(hours) * 3600 + int(minutes) * 60 + int(whole)) * 10**9 + int(fraction.ljust(9, "0"))


def _float(kind: pa.DataType, value: float) -> float:
    return float(np.float32(value)) if pa.types.is_float32(kind) else value


# --- the sinks ---------------------------------------------------------------------------------------------


def committed_rows(sink: TwoPhaseSink, batch: pa.RecordBatch) -> None:
    """Write a batch as one epoch, and commit it."""
    plan = SinkPlan(identity=IDENTITY, schema=batch.schema, mode="append", local_master=True, read_journal=lambda _: ())
    sink.open(plan)
    transaction = sink.begin(attempt_of())
    transaction.write(batch)
    committable = transaction.pre_commit()
    assert committable is not None
    assert [answer.outcome for answer in sink.commit([committable])] == [Outcome.COMMITTED]


def _sqlite(sink: TwoPhaseSink, batch: pa.RecordBatch, folder: Path, kinds: Kinds) -> Found:
    committed_rows(sink, batch)
    with closing(sqlite3.connect(folder / "t.db")) as reader:
        cursor = reader.execute("SELECT * FROM t ORDER BY id")
        names = [each[0] for each in cursor.description]
        columns = dict(zip(names, map(list, zip(*cursor, strict=True)), strict=True))
    return {name: [_of_sqlite(kind, value) for value in columns[name]] for name, kind in kinds.items()}


def _of_sqlite(kind: pa.DataType, value: Any) -> Any:
    if pa.types.is_boolean(kind):
        return {None: None, 0: False, 1: True}[value]
    as_it_is = pa.types.is_binary(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)
    return value if as_it_is or value is None else of_text(kind, value)


def _in_sqlite(kind: pa.DataType, value: Any, replace: bool) -> Any:
    """SQLite has no NaN, and no sign of a zero."""
    if not isinstance(value, float) or value == value:
        return value + 0.0 if isinstance(value, float) else value
    if replace:
        return None
    raise Unwritable


def _json(sink: TwoPhaseSink, batch: pa.RecordBatch, folder: Path, kinds: Kinds) -> Found:
    committed_rows(sink, batch)
    (file,) = (folder / "out").glob("*.json")
    return _of_objects(kinds, [parsed(line) for line in file.read_bytes().decode().split("\n")[:-1]])


def _messages(sink: TwoPhaseSink, batch: pa.RecordBatch, folder: Path, kinds: Kinds) -> Found:
    """As Kafka's client would get them; `tests/kafka/test_kafka_values.py` has a broker."""
    assert isinstance(sink, KafkaSink)
    (found,) = layout_of(sink, batch.schema).messages(batch).values()
    return of_messages(sink, kinds, [message["value"] for message in found])


def of_messages(sink: KafkaSink, kinds: Kinds, values: Sequence[bytes | None]) -> Found:
    if sink.format == "json":
        return _of_objects(kinds, [parsed(value or b"") for value in values])
    ((name, kind),) = kinds.items()
    return {name: [of_bytes(kind, value) for value in values]}


def of_bytes(kind: pa.DataType, value: bytes | None) -> Any:
    """A message's key, or a raw value."""
    return value if value is None or pa.types.is_binary(kind) else of_text(kind, value.decode())


def _parquet(sink: TwoPhaseSink, batch: pa.RecordBatch, folder: Path, kinds: Kinds) -> Found:
    committed_rows(sink, batch)
    (file,) = (folder / "out").glob("*.parquet")
    table = pq.ParquetFile(file).read()
    return {name: neutral(kind, table.column(name).combine_chunks()) for name, kind in kinds.items()}


def _delta(folder: Path, replace: bool) -> DeltaSink:
    return DeltaSink("out", folder / "out", invalid_text=_invalid_text(replace))


def _table(sink: TwoPhaseSink, batch: pa.RecordBatch, folder: Path, kinds: Kinds) -> Found:
    committed_rows(sink, batch)
    table = DeltaTable(str(folder / "out")).to_pyarrow_table().sort_by("id")
    return {name: neutral(kind, table.column(name).combine_chunks().cast(kind)) for name, kind in kinds.items()}


def _iceberg(folder: Path, replace: bool) -> IcebergSink:
    """Tables of one catalog: to make one for each takes longer than all else."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    properties, texts = properties_in(folder.parent), _invalid_text(replace)
    name = f"lake.{folder.name}"
    return IcebergSink("out", name, catalog="tests", catalog_properties=properties, invalid_text=texts)


def _frame(sink: TwoPhaseSink, batch: pa.RecordBatch, folder: Path, kinds: Kinds) -> Found:
    """By the readers of Parquet: the library reads a null map as an empty one."""
    committed_rows(sink, batch)
    table = cast("IcebergSink", sink).place.read()
    assert table is not None
    files = [task.file.file_path for task in table.scan().plan_files()]
    rows = pa.concat_tables([pq.read_table(path.removeprefix("file://")) for path in files]).sort_by("id")
    return {name: neutral(kind, rows.column(name).combine_chunks().cast(kind)) for name, kind in kinds.items()}


def _csv(sink: TwoPhaseSink, batch: pa.RecordBatch, folder: Path, kinds: Kinds) -> Found:
    committed_rows(sink, batch)
    (file,) = (folder / "out").glob("*.csv")
    convert = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(kinds, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
    table = pyarrow.csv.read_csv(file, parse_options=parse, convert_options=convert)
    return _of_texts(kinds, {name: table.column(name).to_pylist() for name in kinds})


def _text(sink: TwoPhaseSink, batch: pa.RecordBatch, folder: Path, kinds: Kinds) -> Found:
    committed_rows(sink, batch)
    (file,) = (folder / "out").glob("*.txt")
    return dict.fromkeys(kinds, file.read_bytes().decode().split("\n")[:-1])


def _in_text(kind: pa.DataType, value: Any, replace: bool) -> Any:
    if value is None or re.search("[\n\r]|^\ufeff", value):
        raise Unwritable
    return value


def _folders(sink: TwoPhaseSink, batch: pa.RecordBatch, folder: Path, kinds: Kinds) -> Found:
    committed_rows(sink, batch)
    ((name, kind),) = kinds.items()
    found: dict[Any, Any] = {}
    for file in (folder / "out").glob("v=*/*.parquet"):
        text = unquote(file.parent.name.removeprefix("v="))
        value = None if text == "__HIVE_DEFAULT_PARTITION__" else of_text(kind, text)
        found.update(dict.fromkeys(pq.ParquetFile(file).read().column("id").to_pylist(), value))
    return {name: [found[number] for number in sorted(found)]}


def _in_folder(kind: pa.DataType, value: Any, replace: bool) -> Any:
    if not isinstance(value, str):
        return value
    folder = re.sub(_ESCAPED, "%00", value)
    if value == "__HIVE_DEFAULT_PARTITION__" or len(f"v={folder}".encode()) > 255:
        raise Unwritable
    return value or None


_ESCAPED = "[\\x01-\\x1f\\x00\\x7f\"#%'*/:=?\\\\{\\[\\]^]"


def _print(sink: TwoPhaseSink, batch: pa.RecordBatch, folder: Path, kinds: Kinds) -> Found:
    """What stands on a console that is no terminal."""
    printed = io.StringIO()
    plan = SinkPlan(
        identity=IDENTITY, schema=batch.schema, mode="append", local_master=True, read_journal=lambda _: iter([batch])
    )
    reference = JournalRef(name="t0", rows=batch.num_rows, size_bytes=1, checksum="")
    sink.open(plan)
    with redirect_stdout(printed):
        sink.commit([Committable(attempt=attempt_of(), rows=batch.num_rows, digest="d", journal=reference)])
    ((name, kind),) = kinds.items()
    lines = [line for line in printed.getvalue().split("\n") if line.startswith("│")]
    assert len(lines) == batch.num_rows, printed.getvalue()
    texts = [line.split("│", 2)[2].removesuffix("│").strip() for line in lines]
    return {name: [of_cell(kind, text) for text in texts]}


def of_cell(kind: pa.DataType, text: str) -> Any:
    """A cell of a printed table: JSON where it is nested or stands in quotes, nothing for a null."""
    if not text:
        return None
    if pa.types.is_nested(kind):
        return of_json(kind, parsed(text))
    return of_text(kind, json.loads(text) if text.startswith('"') else text)


def _invalid_text(replace: bool) -> str:
    return "replace" if replace else "refuse"


def _files(**options: Any) -> Callable[..., TwoPhaseSink]:
    return lambda folder, replace: FileSink("out", folder / "out", invalid_text=_invalid_text(replace), **options)


def _kafka(**options: Any) -> Callable[..., TwoPhaseSink]:
    return lambda _, replace: RowsOfKafka("out", "none:1", topic="t", invalid_text=_invalid_text(replace), **options)


def _sqlite_sink(folder: Path, replace: bool) -> TwoPhaseSink:
    nan = "null" if replace else "refuse"
    return SQLiteSink("out", folder / "t.db", table="t", invalid_text=_invalid_text(replace), nan=nan)


SINKS: Mapping[str, ValueSink] = {
    "SQLite": ValueSink(Target.SQLITE, _sqlite_sink, _sqlite, _in_sqlite),
    "JSON": ValueSink(Target.JSON, _files(format="json"), _json),
    "Kafka JSON": ValueSink(Target.JSON, _kafka(), _messages),
    "Print": ValueSink(
        Target.JSON,
        lambda _, replace: PrintSink("out", invalid_text=_invalid_text(replace)),
        _print,
        columns_at_most=1,
    ),
    "Parquet": ValueSink(Target.PARQUET, _files(), _parquet),
    "Delta": ValueSink(Target.DELTA, _delta, _table),
    "Iceberg": ValueSink(Target.ICEBERG, _iceberg, _frame),
    "CSV": ValueSink(Target.CSV, _files(format="csv", header=True), _csv),
    "text": ValueSink(Target.TEXT, _files(format="text"), _text, _in_text, columns_at_most=1),
    "Kafka raw": ValueSink(Target.BYTES, _kafka(format="raw", value="v"), _messages, columns_at_most=1),
    "folder": ValueSink(Target.FOLDER, _files(partition_by="v"), _folders, _in_folder, columns_at_most=1),
}
