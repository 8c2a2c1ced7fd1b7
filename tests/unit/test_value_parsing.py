"""Values of records become rows: each value one row, in its place, whatever stands in the others."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tidegate.sources.value_parsers import CSVParser, JSONParser, TextParser
from tidegate.sources.value_parsing import ParsedValues, UnparsedValues, ValueParser, ValueParsing

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
AS_JSON = JSONParser(SCHEMA, frozenset(SCHEMA.names))
AS_CSV = CSVParser(SCHEMA, frozenset(SCHEMA.names))


def rows_of(parser: ValueParser, values: Sequence[bytes | None]) -> tuple[list[Any], list[int]]:
    parsed = parser.parsed(values)
    return parsed.column.to_pylist(), [each.row for each in parsed.unparsed]


def row(number: int | None = None, name: str | None = None) -> dict[str, Any]:
    return {"id": number, "name": name}


GOOD = [b'{"id":1,"name":"sea"}', b'{"name":"sand","id":2}', b'  {"id":3}\n', b'{"id":null,"other":[1,{"a":2}]}', b"{}"]
BAD = [
    *(b"", b" ", b"null", b"1", b"[]", b'"{}"', b"{", b"}", b'{"id":1', b'{"id":1}{"id":2}', b'{"id":1}\n{"id":2}'),
    *(b'{"id":1.5}', b'{"id":"1"}', b'{"id":1}x', b'{"id":9223372036854775808}', b'{"name":5}', b'{"name":"\xff"}'),
    *(b'{"id":1,"id":1}', b'{"name":"a\nb"}', b"{'id':1}", b'{"id":1,}', b'x{"id":1}', b'{"id":[1]}', b"\xff\xfe"),
    *(b'{"id":1}\n{"id":2', b"{{}}", b'{"id":{}', b'"}', b'{"', b'{"name":"}', b'{"a":[{}', b"{}]}", b",{}"),
    *(b'{"other":{', b'}}\n{"id":1}', b"}{", b'}{"id":1}{'),
]


def test_each_object_is_a_row_with_the_fields_of_the_schema():
    found, bad = rows_of(AS_JSON, GOOD)
    assert (found, bad) == ([row(1, "sea"), row(2, "sand"), row(3), row(), row()], [])


@pytest.mark.parametrize("value", BAD)
def test_a_value_that_does_not_parse_is_null_and_the_values_beside_it_are_what_they_are(value: bytes):
    found, bad = rows_of(AS_JSON, [*GOOD, value, *GOOD])
    alone, _ = rows_of(AS_JSON, GOOD)
    assert (found, bad) == ([*alone, None, *alone], [len(GOOD)])


def test_two_values_that_do_not_parse_never_make_up_for_each_other():
    """Joined, some pairs would be as many rows as they are values."""
    for first in BAD:
        for second in BAD:
            found, bad = rows_of(AS_JSON, [first, second, GOOD[0]])
            assert (found, bad) == ([None, None, row(1, "sea")], [0, 1]), (first, second)


@pytest.mark.parametrize("seed", range(20))
def test_rows_keep_their_places_among_nulls_and_values_that_do_not_parse(seed: int):
    draw = random.Random(seed)
    count = draw.choice([1, 2, 7, 100])
    values, wanted, bad = list[bytes | None](), list[Any](), list[int]()
    for number in range(count):
        match draw.choice(["good"] * 8 + ["bad", "null"]):
            case "good":
                values.append(json.dumps(row(number, draw.choice(["sea", "\u00e9", "a\nb", '"', "}{", ""]))).encode())
                wanted.append(json.loads(values[-1] or b""))
            case "bad":
                values.append(draw.choice(BAD))
                wanted.append(None)
                bad.append(number)
            case _:
                values.append(None)
                wanted.append(None)
    assert rows_of(AS_JSON, values) == (wanted, bad)


def test_the_reason_is_of_the_value_that_does_not_parse():
    parsed = AS_JSON.parsed([GOOD[0], b'{"id":"x"}'])
    assert [each.reason for each in parsed.unparsed] == ["Column(/id) changed from number to string"]
    assert [each.reason for each in AS_JSON.parsed([b"x"]).unparsed] == ["not a JSON object"]


def test_every_type_of_a_schema_is_read():
    inside = pa.struct([("day", pa.date32()), ("at", pa.timestamp("us", "UTC"))])
    schema = pa.schema(
        [
            *(("flag", pa.bool_()), ("small", pa.int8()), ("ratio", pa.float32()), ("money", pa.decimal128(10, 2))),
            *(("day", pa.date32()), ("at", pa.timestamp("us", "UTC")), ("local", pa.timestamp("us"))),
            *(("days", pa.list_(pa.field("element", pa.date32()))), ("inside", inside)),
            ("list", pa.list_(pa.field("element", inside))),
        ]
    )
    day, at = "2026-01-31", "2026-01-31T23:59:59.5+02:00"
    value = {
        "flag": True,
        "small": -5,
        "ratio": 0.5,
        "money": "1.5",
        "day": day,
        "at": at,
        "local": "2026-01-31 10:00:00",
        "days": [day, None],
        "inside": {"day": day, "at": at, "more": 1},
        "list": [{"day": day}, None],
    }
    found, bad = rows_of(JSONParser(schema, frozenset(schema.names)), [json.dumps(value).encode(), b"{}"])
    moment = datetime(2026, 1, 31, 21, 59, 59, 500_000, timezone.utc)
    the_day = date(2026, 1, 31)
    assert bad == []
    assert found[0] == {
        "flag": True,
        "small": -5,
        "ratio": 0.5,
        "money": Decimal("1.50"),
        "day": the_day,
        "at": moment,
        "local": moment.replace(hour=10, minute=0, second=0, microsecond=0, tzinfo=None),
        "days": [the_day, None],
        "inside": {"day": the_day, "at": moment},
        "list": [{"day": the_day, "at": None}, None],
    }
    assert set(found[1].values()) == {None}


def test_fields_that_no_query_uses_are_null_and_are_not_looked_at():
    values = [b'{"id":1,"name":"sea"}', b'{"id":2,"name":5}']
    assert rows_of(AS_JSON.only(frozenset({"id"})), values) == ([row(1), row(2)], [])
    assert rows_of(AS_CSV.only(frozenset({"name"})), [b"x,sea"]) == ([row(None, "sea")], [])
    assert rows_of(AS_JSON.only(frozenset()), [b"{}", b"["]) == ([row(), None], [1])


def test_only_a_parsing_that_refuses_leaves_fields_out():
    """Otherwise a text that does not parse for one query would parse for the query that writes the dead letters."""
    one = frozenset({"id"})
    assert ValueParsing(AS_JSON, UnparsedValues.REFUSE).only(one).parser != AS_JSON
    for unparsed in (UnparsedValues.NULL, UnparsedValues.DEAD_LETTERS):
        assert ValueParsing(AS_JSON, unparsed).only(one).parser == AS_JSON


def test_a_line_is_a_row():
    values = [b"1,sea", b'2,"a,""b"', b",", b'3,""', None, b"4,\xc3\xa9"]
    assert rows_of(AS_CSV, values) == ([row(1, "sea"), row(2, 'a,"b'), row(), row(3, ""), None, row(4, "\u00e9")], [])


@pytest.mark.parametrize(
    "value", [b"", b"1", b"1,sea,3", b"x,sea", b'1,"a\nb"', b"1,a\r", b'1,"sea', b"1,\xff", b"1.5,a", b'1,a","b']
)
def test_a_line_that_does_not_parse_is_null_and_the_lines_beside_it_are_what_they_are(value: bytes):
    assert rows_of(AS_CSV, [b"1,sea", value, b"2,sand"]) == ([row(1, "sea"), None, row(2, "sand")], [1])
    assert rows_of(AS_CSV, [value, value]) == ([None, None], [0, 1])
    assert rows_of(AS_CSV, [b"1,sea", value]) == ([row(1, "sea"), None], [1])


def test_a_line_has_its_own_delimiter_and_may_have_one_field():
    one = CSVParser(pa.schema([("id", pa.int64())]), frozenset({"id"}), ";")
    assert rows_of(one, [b"1", b"", b"2;"]) == ([{"id": 1}, {"id": None}, None], [2])


def test_a_text_is_what_is_utf_8():
    assert rows_of(TextParser(), [b"sea", b"\xff", None, b"", b"a\nb"]) == (["sea", None, None, "", "a\nb"], [1])


@pytest.mark.parametrize("parser", [AS_JSON, AS_CSV, TextParser()])
def test_no_values_are_no_rows(parser: ValueParser):
    assert rows_of(parser, []) == ([], [])
    assert rows_of(parser, [None, None]) == ([None, None], [])


def test_the_texts_that_do_not_parse_are_kept_for_the_dead_letters():
    values = [b'{"id":1}', b"x\xff", None]
    parsing = ValueParsing(AS_JSON, UnparsedValues.DEAD_LETTERS)
    columns = parsing.columns(values, AS_JSON.parsed(values))
    assert columns["_tidegate_unparsed"].to_pylist() == [None, "x\\xff", None]
    nulls = ValueParsing(AS_JSON, UnparsedValues.NULL)
    assert set(nulls.columns(values, ParsedValues(columns["value"], []))) == {"value"}
