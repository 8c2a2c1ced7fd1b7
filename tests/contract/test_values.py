"""Every value that a sink takes is what its reader gets: edges of each type, and drawn values.

`TIDEGATE_DRAWS=10000` draws as many batches for each sink, in place of 50.
"""

from __future__ import annotations

import os
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contract.values import CONTAINERS, SINKS, TYPES, column_of, contained, cycled, is_taken
from tidegate.sinks.value_table import TABLE, Refused, kind_of

DRAWS = int(os.environ.get("TIDEGATE_DRAWS", "50"))
TAKEN = {
    name: [
        (type_name, container)
        for type_name in TYPES
        for container in CONTAINERS
        if (column := contained(type_name, container)) is not None and is_taken(sink, column.type)
    ]
    for name, sink in SINKS.items()
}


@pytest.mark.parametrize("name", SINKS)
def test_the_edges_of_each_type_come_back_from_each_container(name: str, tmp_path: Path) -> None:
    wrong = {
        cell: found
        for number, cell in enumerate(TAKEN[name])
        if (found := cycled(SINKS[name], contained(*cell), tmp_path / str(number))) is not None
    }
    assert wrong == {}


@pytest.mark.parametrize("name", SINKS)
def test_drawn_values_come_back(name: str) -> None:
    @settings(max_examples=DRAWS)
    @given(data=st.data())
    def draw(data: st.DataObject) -> None:
        type_name, container = data.draw(st.sampled_from(TAKEN[name]))
        kind, _ = TYPES[type_name]
        assert kind is not None
        values = data.draw(st.lists(st.none() | values_of(kind), min_size=1, max_size=12))
        with tempfile.TemporaryDirectory(dir=_MEMORY) as folder:
            assert cycled(SINKS[name], column_of(kind, container, values), Path(folder)) is None

    draw()


def test_the_table_and_the_sinks_agree_on_plain_columns() -> None:
    for name, sink in SINKS.items():
        for type_name, (kind, _) in TYPES.items():
            if kind is not None:
                refused = isinstance(TABLE[kind_of(kind)][sink.target], Refused)
                assert is_taken(sink, kind) is not refused, (name, type_name)


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Neutral values of a type, from its whole range."""
    whole = lambda bits: st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)  # noqa: E731
    if pa.types.is_boolean(kind):
        return st.booleans()
    if pa.types.is_integer(kind):
        return whole(kind.bit_width)
    if pa.types.is_floating(kind):
        return st.floats(width=32 if pa.types.is_float32(kind) else 64)
    if pa.types.is_decimal(kind):
        places: Any = kind
        most = 10**places.precision - 1
        return st.integers(-most, most).map(lambda digits: scaled(digits, places.scale))
    if pa.types.is_binary(kind):
        return st.binary(max_size=20)
    if pa.types.is_date(kind):
        return whole(32)
    if pa.types.is_timestamp(kind):
        return whole(64)
    if pa.types.is_time(kind):
        return st.integers(0, 86_400 * 10**9 - 1)
    return st.text(max_size=20)


def scaled(digits: int, scale: int) -> Decimal:
    return Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), -scale))


_MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
