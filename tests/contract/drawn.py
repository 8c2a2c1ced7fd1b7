"""Drawn rows: a schema of nested types that a sink takes, and a few rows of it, from the whole range of each type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import cache
from typing import Any, cast

import pyarrow as pa
from hypothesis import strategies as st

from tests.contract.value_sinks import ValueSink, is_taken
from tests.contract.values import TYPES, fields_of

Columns = Mapping[str, tuple[pa.DataType, list[Any]]]
_Draw = Callable[[st.SearchStrategy[Any]], Any]

NAMES = ("v", "w x", 'quote"', "ä", "back\\slash", "null", "select", "column0")
ZONES = ("UTC", "America/Los_Angeles", "Asia/Kathmandu", "Pacific/Kiritimati", "+14:00", "-12:00", "Etc/GMT+12")
_DEPTH = 3
_ROWS = 3
_ENTRIES = 2


@st.composite
def rows_for(draw: _Draw, sink: ValueSink) -> Columns:
    """Columns of one length, by name."""
    names = ["v"] if sink.columns_at_most == 1 else draw(_names(sink.columns_at_most))
    length = draw(_LENGTHS)
    kinds = [_taken_kind(draw, sink) for _ in names]
    return {name: (kind, [_value(draw, kind) for _ in range(length)]) for name, kind in zip(names, kinds, strict=True)}


@cache
def _names(at_most: int) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(NAMES), min_size=1, max_size=at_most, unique=True)


_LENGTHS = st.integers(1, _ROWS)


# --- types -------------------------------------------------------------------------------------------------


def _taken_kind(draw: _Draw, sink: ValueSink) -> pa.DataType:
    """A type that the sink takes: some take a plain type only outside of nested ones."""
    kind = _kind(draw, sink, _DEPTH)
    return kind if _taken(sink, kind) else draw(_plain(sink))


def _kind(draw: _Draw, sink: ValueSink, depth: int) -> pa.DataType:
    shape = draw(_SHAPES) if depth and _taken(sink, pa.list_(pa.bool_())) else "plain"
    if shape == "array":
        return pa.list_(_kind(draw, sink, depth - 1))
    if shape == "struct":
        names = draw(_names(_ENTRIES))
        return pa.struct([(name, _kind(draw, sink, depth - 1)) for name in names])
    if shape == "map":
        key = _kind(draw, sink, depth - 1)
        while _has_map(key) or not _taken(sink, pa.map_(key, pa.bool_())):  # Spark has no maps in keys
            key = draw(_plain(sink))
        return pa.map_(key, _kind(draw, sink, depth - 1))
    return draw(_plain(sink))


_SHAPES = st.sampled_from(["plain", "plain", "plain", "array", "struct", "map"])
_taken = cache(is_taken)


@cache
def _plain(sink: ValueSink) -> st.SearchStrategy[pa.DataType]:
    of_spark = [kind for kind, edges in TYPES.values() if kind is not None and edges and is_taken(sink, kind)]
    zones = st.sampled_from(ZONES).map(lambda zone: pa.timestamp("us", zone))
    scales = st.integers(1, 38).flatmap(lambda digits: st.integers(0, digits).map(lambda scale: (digits, scale)))
    more = [zones] if pa.timestamp("us", "America/Los_Angeles") in of_spark else []
    decimals = [scales.map(lambda each: pa.decimal128(*each))] if pa.decimal128(10, 2) in of_spark else []
    return st.one_of(st.sampled_from(of_spark), *more, *decimals)


def _has_map(kind: Any) -> bool:
    if pa.types.is_struct(kind):
        return any(_has_map(field.type) for field in fields_of(kind))
    return pa.types.is_map(kind) or (pa.types.is_list(kind) and _has_map(kind.value_type))


# --- values ------------------------------------------------------------------------------------------------


def _value(draw: _Draw, kind: Any, *, may_be_null: bool = True) -> Any:
    if not pa.types.is_nested(kind):
        return draw(_values(kind, may_be_null))
    if may_be_null and draw(_ONE_IN_FIVE):
        return None
    if pa.types.is_struct(kind):
        return {field.name: _value(draw, field.type) for field in fields_of(kind)}
    entries, parts = range(draw(_COUNTS)), cast("Any", kind)
    if not pa.types.is_map(kind):
        return [_value(draw, parts.value_type) for _ in entries]
    keys = {repr(key): key for key in (_value(draw, parts.key_type, may_be_null=False) for _ in entries)}
    return [(key, _value(draw, parts.item_type)) for key in keys.values()]


_ONE_IN_FIVE = st.integers(0, 4).map(lambda number: number == 4)
_COUNTS = st.integers(0, _ENTRIES)


@cache
def _values(kind: pa.DataType, may_be_null: bool) -> st.SearchStrategy[Any]:
    edges = next((edges for each, edges in TYPES.values() if each is not None and _alike(each, kind)), ())
    values = [st.sampled_from(list(edges))] if edges else []
    return st.one_of(*([st.none()] if may_be_null else []), *values, _whole_range(kind))


def _alike(listed: Any, kind: Any) -> bool:
    zoned = pa.types.is_timestamp(listed) and pa.types.is_timestamp(kind)
    return (listed.tz is None) is (kind.tz is None) if zoned else listed == kind


def _whole_range(kind: Any) -> st.SearchStrategy[Any]:
    if pa.types.is_boolean(kind):
        return st.booleans()
    if pa.types.is_integer(kind):
        return _integers(kind.bit_width)
    if pa.types.is_floating(kind):
        return st.floats(width=32 if pa.types.is_float32(kind) else 64)
    if pa.types.is_decimal(kind):
        most, scale = 10**kind.precision - 1, kind.scale
        return st.integers(-most, most).map(lambda digits: _scaled(digits, scale))
    if pa.types.is_date(kind):
        return _integers(32) | st.integers(-800_000, 3_000_000)
    if pa.types.is_timestamp(kind):
        return _integers(64) | st.integers(-(2**56), 2**58)
    if pa.types.is_time(kind):
        return st.integers(0, 86_400 * 10**9 - 1)
    return st.binary(max_size=20) if pa.types.is_binary(kind) else _TEXTS


def _integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _scaled(digits: int, scale: int) -> Decimal:
    return Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), -scale))


_BROKEN = (
    b"\xff",
    b"a\xffb",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xed\xb0\x80",
    b"\xf8\x88\x80\x80\x80",
    b"\xc0\x80",
    b"\xe2\x82",
)
"""Half a character, lone surrogates, five bytes for one, a zero in two bytes."""

_TEXTS = st.text(max_size=20).map(str.encode)
_TEXTS = st.one_of(_TEXTS, _TEXTS, _TEXTS, _TEXTS, st.sampled_from(_BROKEN), st.binary(max_size=6))
