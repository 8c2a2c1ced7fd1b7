"""Rows become messages without losing a bit: raw bytes stay as they are, JSON says what the row said."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

from tidegate.sinks.kafka.declared import layout_of
from tidegate.sinks.kafka.messages import Message
from tidegate.sinks.kafka.sink import KafkaSink


def messages(sink: KafkaSink, rows: pa.Table) -> list[Message]:
    return [message for found in by_topic(sink, rows).values() for message in found]


def by_topic(sink: KafkaSink, rows: pa.Table) -> dict[str, list[Message]]:
    layout = layout_of(sink, rows.schema)
    (found,) = [layout.messages(batch) for batch in rows.to_batches()]
    return found


def test_json_has_every_column_and_the_key_is_one_of_them() -> None:
    rows = pa.table({"word": ["a", "b"], "count": [1, 2]})
    found = by_topic(KafkaSink("s", "none:1", topic="counts", key="word"), rows)
    assert [(each["key"], json.loads(each["value"] or b"")) for each in found["counts"]] == [
        (b"a", {"word": "a", "count": 1}),
        (b"b", {"word": "b", "count": 2}),
    ]
    assert all("partition" not in each for each in found["counts"])


def test_topic_partition_and_headers_are_not_in_the_value() -> None:
    headers = pa.array(
        [[{"key": "h", "value": b"\x00"}], None], pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    )
    rows = pa.table({"topic": ["one", "two"], "at": pa.array([3, None], pa.int32()), "h": headers, "n": [1, 2]})
    found = by_topic(KafkaSink("s", "none:1", partition="at", headers="h"), rows)
    assert found == {
        "one": [{"key": None, "value": b'{"n":1}', "partition": 3, "headers": [("h", b"\x00")]}],
        "two": [{"key": None, "value": b'{"n":2}', "partition": -1}],
    }


def test_rows_of_a_topic_keep_their_order() -> None:
    rows = pa.table({"topic": ["one", "two", "one"], "value": ["a", "b", "c"]})
    found = by_topic(KafkaSink("s", "none:1", format="raw"), rows)
    assert {topic: [each["value"] for each in some] for topic, some in found.items()} == {
        "one": [b"a", b"c"],
        "two": [b"b"],
    }


@pytest.mark.parametrize("name", ["plain", "count(1)", 'a "b"', "back\\slash", "ä"])
def test_a_column_of_any_name_stands_in_the_object_and_a_null_does_not(name: str) -> None:
    rows = pa.table({name: pa.array([0, None]), "other": ["", ""]})
    found = messages(KafkaSink("s", "none:1", topic="t"), rows)
    assert [json.loads(each["value"] or b"") for each in found] == [{name: 0, "other": ""}, {"other": ""}]


def test_a_value_of_some_columns_in_the_order_given() -> None:
    rows = pa.table({"a": [1], "b": ["x\ny"], "c": [True]})
    (found,) = messages(KafkaSink("s", "none:1", topic="t", value=["c", "b"]), rows)
    assert found["value"] == b'{"c":true,"b":"x\\ny"}'


def test_raw_takes_the_columns_of_sparks_own_sink_as_they_are() -> None:
    rows = pa.table(
        {
            "key": pa.array([b"\xff\x00", None], pa.binary()),
            "value": pa.array([b"\x01\n\x02", None], pa.binary()),
            "topic": ["a", "b"],
            "partition": pa.array([0, 1], pa.int32()),
        }
    )
    found = by_topic(KafkaSink("s", "none:1", format="raw"), rows)
    assert found == {
        "a": [{"key": b"\xff\x00", "value": b"\x01\n\x02", "partition": 0}],
        "b": [{"key": None, "value": None, "partition": 1}],
    }


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        (pa.array(["häß"]), "häß".encode()),
        (pa.array([12345678901]), b"12345678901"),
        (pa.array([True]), b"true"),
        (pa.array([Decimal("1.50")]), b"1.50"),
        (pa.array([datetime(2026, 1, 2, 3, 4, 5, 6, timezone.utc)]), b"2026-01-02T03:04:05.000006Z"),
        (pa.array([None], pa.string()), None),
    ],
    ids=lambda each: str(getattr(each, "type", "")),
)
def test_a_key_of_any_plain_type_is_its_text(column: pa.Array, wanted: bytes | None) -> None:
    rows = pa.table({"k": column, "n": [1]})
    (found,) = messages(KafkaSink("s", "none:1", topic="t", key="k", value=["n"]), rows)
    assert found["key"] == wanted


def test_a_slice_of_a_batch_gives_its_own_rows() -> None:
    rows = pa.table({"n": list(range(10))}).slice(4, 3)
    assert [each["value"] for each in messages(KafkaSink("s", "none:1", topic="t"), rows)] == [
        b'{"n":4}',
        b'{"n":5}',
        b'{"n":6}',
    ]
