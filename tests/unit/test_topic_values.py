"""Values in a channel over Kafka: what is written is read again, or its row is refused before it is in the topic."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.channels.topic_checks import refused_values
from tidegate.sinks.kafka.messages import Layout, MessageFormat
from tidegate.sources.value_parsers import JSONParser

_arrow = cast("Any", pa)
UTC, LOCAL = pa.timestamp("us", "UTC"), pa.timestamp("us")
DAY = 86_400_000_000
YEAR_10000 = 253_402_300_800_000_000
YEAR_0 = -62_167_219_200_000_000


def batch_of(column: pa.Array[Any], name: str = "a") -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([column], names=[name])


def read_again(batch: pa.RecordBatch) -> pa.Array[Any]:
    """The column, written and read."""
    layout = Layout(MessageFormat.JSON, "words", None, None, tuple(batch.schema.names), None, None)
    assert layout.refused(batch) == []
    values = [message["value"] for message in layout.messages(batch)["words"]]
    parsed = JSONParser(batch.schema, frozenset(batch.schema.names)).parsed(values)
    assert parsed.unparsed == ()
    return cast("Any", parsed.column).flatten()[0]


KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int8(), st.integers(-(2**7), 2**7 - 1)),
    (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float32(), st.floats(width=32, allow_nan=False, allow_infinity=False)),
    (pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    (pa.decimal128(38, 18), st.integers(-(10**38) + 1, 10**38 - 1).map(lambda each: Decimal(f"{each}e-18"))),
    (pa.decimal128(38, 0), st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal)),
    (pa.string(), st.text()),
    (pa.date32(), st.dates()),
    (UTC, st.datetimes(timezones=st.just(datetime.timezone.utc))),
    (LOCAL, st.datetimes()),
]


def columns() -> st.SearchStrategy[pa.Array[Any]]:
    """Columns of every type that JSON can have, also nested and with nulls."""

    def nested(kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        lists = kinds.map(lambda each: (_arrow.list_(each[0]), st.lists(st.none() | each[1], max_size=3)))
        structs = st.dictionaries(st.text(max_size=3), kinds, min_size=1, max_size=3).map(
            lambda fields: (
                _arrow.struct([(name, kind) for name, (kind, _) in fields.items()]),
                st.fixed_dictionaries({name: st.none() | values for name, (_, values) in fields.items()}),
            )
        )
        return lists | structs

    return st.recursive(st.sampled_from(KINDS), nested, max_leaves=4).flatmap(
        lambda each: st.lists(st.none() | each[1], min_size=1, max_size=5).map(lambda rows: _arrow.array(rows, each[0]))
    )


@given(columns(), st.text(max_size=4))
def test_a_value_is_read_as_it_was_written(column: pa.Array[Any], name: str) -> None:
    batch = batch_of(column, name)
    assert list(refused_values(batch)) == []
    assert read_again(batch).equals(column)


def micros(kind: pa.DataType, at: int) -> pa.Array[Any]:
    """A column with this point of time, in microseconds since 1970."""
    if pa.types.is_date(kind):
        return _arrow.array([at // DAY], pa.int32()).cast(kind)
    return _arrow.array([at], pa.int64()).cast(kind)


@pytest.mark.parametrize("kind", [pa.date32(), UTC, LOCAL], ids=str)
def test_a_year_that_the_readers_cannot_parse_is_refused_before_it_is_in_the_channel(kind: pa.DataType) -> None:
    for at in (YEAR_0, YEAR_10000 - 1):
        column = micros(kind, at)
        assert list(refused_values(batch_of(column))) == []
        assert read_again(batch_of(column)).equals(column)
    for at, found in ((YEAR_0 - 1, "-0001-12-31"), (YEAR_10000, "+10000-01-01")):
        column = micros(kind, at)
        refused = list(refused_values(batch_of(_arrow.ListArray.from_arrays([0, 0, 1], column))))
        assert [(each.row, each.column) for each in refused] == [(1, "a")]
        assert refused[0].found.startswith(found)
        assert "'a[]'" in refused[0].expected


def test_numbers_that_json_does_not_have_are_refused() -> None:
    rows = [1.0, None, float("nan"), float("inf")]
    refused = list(refused_values(batch_of(_arrow.array(rows, pa.float64()))))
    assert [(each.row, each.found) for each in refused] == [(2, "NaN"), (3, "Infinity")]
