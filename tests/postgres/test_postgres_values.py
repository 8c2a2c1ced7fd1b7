"""Every value that the PostgreSQL sink takes is what its reader gets, and no other row is refused.

The reader is SQL: it takes days and microseconds out of dates and times, which Python cannot hold all.
"""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.contract.draws import search
from tests.contract.value_sinks import Found, Kinds, ValueSink, committed_rows, cycled, is_taken, of_json, parsed
from tests.contract.values import CONTAINERS, TYPES, Unwritable, contained, fields_of, mapped
from tests.support.postgres import PostgresServer, quoted
from tests.support.today import turn
from tidegate.sinks.base import TwoPhaseSink
from tidegate.sinks.postgres.sink import PostgresSink
from tidegate.sinks.value_table import TABLE, RefusedType, Target, kind_of
from tidegate.testing.contract import IDENTITY

_DRAWS = 20
_FROM_2000 = 946_684_800_000_000


@pytest.fixture(scope="module")
def sink(postgres: PostgresServer) -> ValueSink:
    schema = postgres.schema()
    return ValueSink(
        Target.POSTGRES,
        lambda folder, replace: PostgresSink(
            "out",
            postgres.conninfo,
            table=_table(folder),
            schema=schema,
            invalid_text="replace" if replace else "refuse",
        ),
        partial(_cycle, postgres, schema),
        _in_postgres,
    )


@turn(1, of=3)
@pytest.mark.parametrize("container", CONTAINERS)
def test_the_edges_of_each_type_come_back(container: str, sink: ValueSink, tmp_path: Path) -> None:
    wrong: dict[str, str] = {}
    for number, name in enumerate(TYPES):
        edges = contained(name, container)
        if edges is not None and is_taken(sink, edges[0]):
            found = cycled(sink, {"v": edges}, tmp_path / str(number))
            wrong |= {} if found is None else {name: found}
    assert wrong == {}


def test_drawn_rows_come_back(sink: ValueSink) -> None:
    drawn, rows = search(sink, _DRAWS)
    assert drawn >= _DRAWS
    assert rows >= drawn


def test_the_table_and_the_sink_agree_on_plain_columns(sink: ValueSink) -> None:
    for name, (kind, _) in TYPES.items():
        if kind is not None:
            assert is_taken(sink, kind) is not isinstance(TABLE[kind_of(kind)][sink.target], RefusedType), name


# --- written and read --------------------------------------------------------------------------------------


def _table(folder: Path) -> str:
    return hashlib.sha256(str(folder).encode()).hexdigest()[:16]


def _cycle(
    server: PostgresServer, schema: str, sink: TwoPhaseSink, batch: pa.RecordBatch, folder: Path, kinds: Kinds
) -> Found:
    sink.forget(IDENTITY)  # of the cycle before
    committed_rows(sink, batch)
    columns = ", ".join(_read(kind, quoted(name)) for name, kind in kinds.items())
    rows = server.execute(f"SELECT {columns} FROM {quoted(schema)}.{_quoted_table(folder)} ORDER BY id")
    by_column = zip(*rows, strict=True)
    return {
        name: [_neutral(kind, value) for value in values]
        for (name, kind), values in zip(kinds.items(), by_column, strict=True)
    }


def _quoted_table(folder: Path) -> str:
    return quoted(_table(folder))


def _is_json(kind: pa.DataType) -> bool:
    return pa.types.is_nested(kind) and not (pa.types.is_list(kind) and not pa.types.is_nested(kind.value_type))


def _read(kind: pa.DataType, column: str) -> str:
    if _is_json(kind):
        return f"{column}::text"
    if pa.types.is_list(kind):
        each = _plain(kind.value_type, "e")
        all_of_them = f"SELECT array_agg({each} ORDER BY n) FROM unnest({column}) WITH ORDINALITY AS u(e, n)"
        return f"CASE WHEN cardinality({column}) = 0 THEN '{{}}' ELSE ({all_of_them}) END"
    return _plain(kind, column)


def _plain(kind: pa.DataType, column: str) -> str:
    if pa.types.is_date(kind):
        return f"{column} - date '1970-01-01'"
    if pa.types.is_timestamp(kind):
        # `extract` rounds in far years. The server sends microseconds from 2000 on.
        send = "timestamptz_send" if kind.tz is not None else "timestamp_send"
        return f"('x' || encode({send}({column}), 'hex'))::bit(64)::bigint::numeric + {_FROM_2000}"
    return f"(extract(epoch FROM {column}) * 1000000000)::bigint" if pa.types.is_time(kind) else column


def _neutral(kind: pa.DataType, value: Any) -> Any:
    if value is None:
        return None
    if _is_json(kind):
        return _in_order(kind, of_json(kind, parsed(value)))
    if pa.types.is_list(kind):
        return [_neutral(kind.value_type, each) for each in value]
    if pa.types.is_timestamp(kind):
        return int(value)
    return float(np.float32(value)) if pa.types.is_float32(kind) else value


# --- what must be found ------------------------------------------------------------------------------------


def _in_postgres(kind: pa.DataType, value: Any, replace: bool) -> Any:
    """PostgreSQL's texts have no U+0000, its times fewer years and digits, and its JSON no negative zero."""
    return _in_order(kind, mapped(kind, value, _in_json if _is_json(kind) else _in_column))


def _in_order(kind: pa.DataType, value: Any) -> Any:
    """The maps with their keys in one order: those of jsonb have one of its own."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: _in_order(field.type, value[field.name]) for field in fields_of(kind)}
    if pa.types.is_map(kind):
        return sorted(((key, _in_order(kind.item_type, item)) for key, item in value), key=repr)
    return [_in_order(kind.value_type, each) for each in value] if pa.types.is_list(kind) else value


def _in_json(kind: pa.DataType, value: Any) -> Any:
    return _without_zero_byte(value) + 0.0 if isinstance(value, float) else _without_zero_byte(value)


def _in_column(kind: pa.DataType, value: Any) -> Any:
    if pa.types.is_date(kind) and not -2_440_588 <= value < 2_145_042_906:
        raise Unwritable
    if pa.types.is_timestamp(kind) and value < -210_866_803_200_000_000:
        raise Unwritable
    if pa.types.is_time(kind) and value % 1000:
        raise Unwritable
    return _without_zero_byte(value)


def _without_zero_byte(value: Any) -> Any:
    if isinstance(value, str) and "\0" in value:
        raise Unwritable
    return value
