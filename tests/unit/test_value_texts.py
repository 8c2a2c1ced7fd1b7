"""A value as text: one text for each value of a type, also where Python's own types cannot hold it."""

from __future__ import annotations

import json
import random
import struct
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidegate.sinks.json_lines import json_objects
from tidegate.sinks.value_texts import texts_of

DAY = 86_400_000_000
CASES: list[tuple[pa.DataType, int, str]] = [
    (pa.date32(), -719_528, "0000-01-01"),
    (pa.date32(), -719_529, "-0001-12-31"),
    (pa.date32(), 2_932_896, "9999-12-31"),
    (pa.date32(), 2_932_897, "+10000-01-01"),
    (pa.date32(), 2**31 - 1, "+5881580-07-11"),
    (pa.date32(), -(2**31), "-5877641-06-23"),
    (pa.timestamp("us", "UTC"), 2_932_897 * DAY - 1, "9999-12-31T23:59:59.999999Z"),
    (pa.timestamp("us", "America/Los_Angeles"), 2_932_897 * DAY, "+10000-01-01T00:00:00.000000Z"),
    (pa.timestamp("us"), -719_528 * DAY, "0000-01-01T00:00:00.000000"),
    (pa.timestamp("us"), -719_528 * DAY - 1, "-0001-12-31T23:59:59.999999"),
    (pa.timestamp("us", "UTC"), 2**63 - 1, "+294247-01-10T04:00:54.775807Z"),
    (pa.timestamp("us", "UTC"), -(2**63), "-290308-12-21T19:59:05.224192Z"),
    (pa.time64("ns"), 3_661_000_001_000, "01:01:01.000001"),
    (pa.time64("ns"), 1, "00:00:00.000000001"),
    (pa.time64("us"), DAY - 1, "23:59:59.999999"),
]


def of_numbers(kind: pa.DataType, *numbers: int | None) -> pa.Array[Any]:
    return pa.array(numbers, pa.int32() if kind == pa.date32() else pa.int64()).view(kind)


def written(column: pa.Array[Any]) -> list[str]:
    return [str(text) for text in texts_of(column).to_pylist()]


@pytest.mark.parametrize(("kind", "number", "text"), CASES)
def test_times_of_any_year_have_a_text(kind: pa.DataType, number: int, text: str) -> None:
    assert texts_of(of_numbers(kind, number, None, 0)).to_pylist()[:2] == [text, None]


@pytest.mark.parametrize(("kind", "number", "text"), CASES)
def test_json_says_times_of_any_year_in_every_container(kind: pa.DataType, number: int, text: str) -> None:
    values, offsets = of_numbers(kind, number, 0), pa.array([0, 1, 2], pa.int32())
    anything: Any = pa
    columns = {
        "plain": values,
        "array": anything.ListArray.from_arrays(offsets, values),
        "struct": anything.StructArray.from_arrays([values], ["x"]),
        "value": anything.MapArray.from_arrays(offsets, pa.array(["a", "b"]), values),
        "key": anything.MapArray.from_arrays(offsets, values, pa.array([1, 2])),
    }
    first, _ = json_objects(pa.RecordBatch.from_pydict(columns))
    assert json.loads(first) == {
        "plain": text,
        "array": [text],
        "struct": {"x": text},
        "value": {"a": text},
        "key": {text: 1},
    }


def test_texts_sort_as_the_days_do_in_years_of_four_digits_and_only_there() -> None:
    days = sorted(random.Random(7).sample(range(-719_528, 2_932_897), 500))
    texts = written(of_numbers(pa.date32(), *days))
    assert texts == sorted(texts)
    outside = written(of_numbers(pa.date32(), -719_529, 0, 2_932_897))
    assert outside != sorted(outside)


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_a_number_has_the_shortest_text_that_is_read_back(kind: pa.DataType) -> None:
    bits = random.Random(7)
    single = kind == pa.float32()
    drawn = np.array([bits.getrandbits(32 if single else 64) for _ in range(20_000)], "u4" if single else "u8")
    values = drawn.view("f4" if single else "f8")
    values = values[np.isfinite(values)]
    column = pa.array(values)
    objects = json_objects(pa.RecordBatch.from_arrays([column], names=["x"]))
    again = np.array([json.loads(each)["x"] for each in objects]).astype(values.dtype)
    assert (again.view(drawn.dtype) == values.view(drawn.dtype)).all()
    texts = written(column)
    assert (np.array([float(text) for text in texts]).astype(values.dtype) == values).all()
    if single:
        assert max(len(text.split("e")[0].replace("-", "").replace(".", "").strip("0")) for text in texts) <= 9


def test_a_float_is_said_as_a_float_in_every_container() -> None:
    (value,) = struct.unpack("f", struct.pack("f", 0.1))
    rows = pa.RecordBatch.from_pydict(
        {
            "plain": pa.array([value], pa.float32()),
            "array": pa.array([[value, None]], pa.list_(pa.float32())),
            "map": pa.array([[("a", value)]], pa.map_(pa.string(), pa.float32())),
        }
    )
    assert json_objects(rows) == [b'{"plain":0.1,"array":[0.1,null],"map":{"a":0.1}}']


KEYS = [
    (pa.int64(), -5, "-5"),
    (pa.decimal128(10, 2), Decimal("1.50"), "1.50"),
    (pa.decimal128(38, 18), Decimal("1e-18"), "0.000000000000000001"),
    (pa.decimal128(38, 18), Decimal(0), "0.000000000000000000"),
    (pa.bool_(), True, "true"),
    (pa.binary(), b"\0\xff", "AP8="),
    (pa.string(), 'a"\n', 'a"\n'),
]


@pytest.mark.parametrize(("kind", "key", "text"), KEYS)
def test_the_key_of_a_map_is_a_text_of_its_own(kind: pa.DataType, key: object, text: str) -> None:
    rows = pa.RecordBatch.from_arrays([pa.array([[(key, "x")], None, []], pa.map_(kind, pa.string()))], names=["v"])
    assert [json.loads(each) for each in json_objects(rows)] == [{"v": {text: "x"}}, {}, {"v": {}}]


def test_a_part_of_a_batch_has_its_own_entries() -> None:
    rows = pa.RecordBatch.from_pydict(
        {
            "l": pa.array([[1], [2, 3], None, [], [4]]),
            "m": pa.array([[("a", 1)], None, [("b", 2), ("c", 3)], [], [("d", 4)]], pa.map_(pa.string(), pa.int64())),
            "s": pa.array([{"x": [1]}, {"x": [2]}, None, {"x": None}, {"x": []}]),
        }
    )
    whole = json_objects(rows)
    assert [json.loads(each) for each in whole] == [
        {"l": [1], "m": {"a": 1}, "s": {"x": [1]}},
        {"l": [2, 3], "s": {"x": [2]}},
        {"m": {"b": 2, "c": 3}},
        {"l": [], "m": {}, "s": {}},
        {"l": [4], "m": {"d": 4}, "s": {"x": []}},
    ]
    for first, end in pairwise(range(6)):
        assert json_objects(rows.slice(first, end - first)) == whole[first:end]
