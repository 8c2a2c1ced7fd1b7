"""What the file formats make of every type."""

from __future__ import annotations

import io
import math
from datetime import date, datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.sinks.files.formats import CSV_WITH_HEADER, FORMATS
from tidegate.sinks.value_table import violations

MOMENT = datetime(2026, 1, 31, 23, 59, 59, 1, tzinfo=timezone.utc)
LOCAL = MOMENT.replace(tzinfo=None)

CASES = [
    (pa.int64(), 2**63 - 1, "9223372036854775807"),
    (pa.int16(), -5, "-5"),
    (pa.bool_(), True, "true"),
    (pa.float64(), 0.1, "0.1"),
    (pa.float64(), math.inf, '"Infinity"'),
    (pa.float32(), -math.inf, '"-Infinity"'),
    (pa.string(), 'a"ä\n', r'"a\"ä\n"'),
    (pa.binary(), b"\0\xff", '"AP8="'),
    (pa.decimal128(38, 18), Decimal("1.000000000000000001"), "1.000000000000000001"),
    (pa.date32(), date(2026, 1, 31), '"2026-01-31"'),
    (pa.timestamp("us"), LOCAL, '"2026-01-31T23:59:59.000001"'),
    (pa.timestamp("us", "UTC"), MOMENT, '"2026-01-31T23:59:59.000001Z"'),
    (pa.timestamp("us", "Asia/Tokyo"), MOMENT, '"2026-01-31T23:59:59.000001Z"'),
    (pa.list_(pa.int64()), [1, None], "[1,null]"),
    (pa.list_(pa.timestamp("us", "Asia/Tokyo")), [MOMENT, None], '["2026-01-31T23:59:59.000001Z",null]'),
    (pa.list_(pa.timestamp("us")), [LOCAL], '["2026-01-31T23:59:59.000001"]'),
    (pa.list_(pa.float64()), [math.nan, 1.0], '["NaN",1.0]'),
    (pa.struct([("x", pa.int64()), ("y", pa.string())]), {"x": None, "y": "b"}, '{"y":"b"}'),
    (pa.map_(pa.string(), pa.float64()), [("a", 1.5), ("b", None)], '{"a":1.5,"b":null}'),
    (pa.map_(pa.int32(), pa.list_(pa.binary())), [(1, [b"x"])], '{"1":["eA=="]}'),
]


def written(format: str, batch: pa.RecordBatch) -> bytes:
    file = io.BytesIO()
    writer = FORMATS[format].writer(file, batch.schema)
    writer.write(batch)
    writer.close()
    return file.getvalue()


def takes(format: str, kind: pa.DataType) -> bool:
    return not list(violations(pa.schema([("x", kind)]), FORMATS[format].target, "sink"))


def column(kind: pa.DataType, *values: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, kind)], names=["x"])


@pytest.mark.parametrize(("kind", "value", "text"), CASES, ids=lambda case: str(case)[:40])
def test_json_says_it_as_spark_reads_it(kind: pa.DataType, value: object, text: str) -> None:
    assert takes("json", kind)
    assert written("json", column(kind, value, None)).decode() == f'{{"x":{text}}}\n{{}}\n'


@pytest.mark.parametrize(("kind", "value", "text"), CASES, ids=lambda case: str(case)[:40])
def test_parquet_gives_it_back(kind: pa.DataType, value: object, text: str) -> None:
    assert takes("parquet", kind)
    batch = column(kind, value, None)
    found = pq.read_table(io.BytesIO(written("parquet", batch)))
    assert repr(found.to_pylist()) == repr(batch.to_pylist())  # NaN is not equal to itself


def test_json_says_nan_as_a_text_beside_finite_numbers() -> None:
    lines = written("json", column(pa.float64(), math.nan, 1.0)).decode()
    assert lines == '{"x":"NaN"}\n{"x":1.0}\n'


def test_json_takes_any_column_name() -> None:
    batch = pa.RecordBatch.from_pydict({'say "hi"\\': [1], "": [2]})
    assert written("json", batch).decode() == '{"say \\"hi\\"\\\\":1,"":2}\n'


CSV = [
    (pa.int64(), -5, "-5"),
    (pa.bool_(), True, "true"),
    (pa.float64(), 0.1, "0.1"),
    (pa.float64(), math.nan, '"NaN"'),
    (pa.float64(), math.inf, '"Infinity"'),
    (pa.float32(), -math.inf, '"-Infinity"'),
    (pa.string(), 'a"ä,\n', '"a""ä,\n"'),
    (pa.string(), "", '""'),
    (pa.decimal128(38, 18), Decimal("1.000000000000000001"), "1.000000000000000001"),
    (pa.date32(), date(2026, 1, 31), "2026-01-31"),
    (pa.timestamp("us"), LOCAL, '"2026-01-31T23:59:59.000001"'),
    (pa.timestamp("us", "Asia/Tokyo"), MOMENT, '"2026-01-31T23:59:59.000001Z"'),
]


@pytest.mark.parametrize(("kind", "value", "text"), CSV, ids=lambda case: str(case)[:40])
def test_csv_says_it_as_spark_reads_it_and_null_as_nothing(kind: pa.DataType, value: object, text: str) -> None:
    assert takes("csv", kind)
    batch = pa.RecordBatch.from_arrays([pa.array([value, None], kind), pa.array([1, 2])], names=["x", "y"])
    assert written("csv", batch).decode() == f"{text},1\n,2\n"


def test_the_names_stand_once_at_the_start_of_a_csv_file() -> None:
    file = io.BytesIO()
    writer = CSV_WITH_HEADER.writer(file, pa.schema([("x", pa.int64())]))
    for value in range(2):
        writer.write(column(pa.int64(), value))
    writer.close()
    assert file.getvalue().decode() == '"x"\n0\n1\n'


def test_an_only_csv_column_has_no_null_for_that_line_would_be_empty() -> None:
    (refused,) = FORMATS["csv"].refuses(column(pa.string(), "", None))
    assert "column 'x' of every row" in refused.expected
    assert written("csv", column(pa.string(), "")) == b'""\n'


def test_a_text_line_is_its_value() -> None:
    assert written("text", column(pa.string(), "a,b", "", ' "ä" \\')).decode() == 'a,b\n\n "ä" \\\n'


@pytest.mark.parametrize("value", ["a\nb", "a\r", "\n", "\ufeffa", None])
def test_a_value_that_is_not_one_line_is_refused(value: str | None) -> None:
    (refused,) = FORMATS["text"].refuses(column(pa.string(), "before", value))
    assert refused.row == 1


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.struct([("x", pa.int64())]), pa.binary()])
def test_csv_takes_nothing_nested_and_no_bytes(kind: pa.DataType) -> None:
    assert not takes("csv", kind)


@pytest.mark.parametrize(
    "kind", [pa.duration("us"), pa.null(), pa.uint64(), pa.struct([]), pa.month_day_nano_interval()]
)
@pytest.mark.parametrize("format", FORMATS)
def test_a_type_that_spark_would_not_read_back_is_not_taken(format: str, kind: pa.DataType) -> None:
    assert not takes(format, kind)
    assert not takes(format, pa.list_(kind))
