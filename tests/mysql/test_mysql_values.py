"""Every value that the MySQL sink takes is what its reader gets, and no other row is refused.

The reader is SQL: it takes days and microseconds out of dates and times, and all digits out of a float.
"""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import reject

from tests.contract.draws import search
from tests.contract.value_sinks import Found, Kinds, ValueSink, committed_rows, cycled, is_taken, of_json, parsed
from tests.contract.values import CONTAINERS, TYPES, Unwritable, contained, mapped
from tests.support.mariadb import MariaDBServer, quoted
from tests.support.today import turn
from tidegate.sinks.base import TwoPhaseSink
from tidegate.sinks.mysql.sink import MySQLSink
from tidegate.sinks.value_table import TABLE, RefusedType, Target, kind_of
from tidegate.testing.contract import IDENTITY

_DRAWS = 20
_CONTAINERS = [pytest.param(each, marks=[pytest.mark.more] * (each != "itself")) for each in CONTAINERS]
"""In containers all types are JSON, which other sinks show as well."""


@pytest.fixture(scope="module", params=[False, pytest.param(True, marks=pytest.mark.more)], ids=["INSERT", "LOAD DATA"])
def sink(mariadb: MariaDBServer, request: pytest.FixtureRequest) -> ValueSink:
    database = mariadb.database()
    in_column = partial(_in_column, mariadb.has_negative_zero)
    return ValueSink(
        Target.MYSQL,
        lambda folder, replace: MySQLSink(
            "out",
            "127.0.0.1",
            database=database,
            table=_table(folder),
            invalid_text="replace" if replace else "refuse",
            options=mariadb.options(local_infile=request.param),
        ),
        partial(_cycle, mariadb, database),
        lambda kind, value, replace: mapped(kind, value, _in_json if pa.types.is_nested(kind) else in_column),
    )


@turn(0, of=2)
@pytest.mark.parametrize("container", _CONTAINERS)
def test_the_edges_of_each_type_come_back(container: str, sink: ValueSink, tmp_path: Path) -> None:
    wrong: dict[str, str] = {}
    for number, name in enumerate(TYPES):
        edges = contained(name, container)
        if edges is not None and is_taken(sink, edges[0]) and not _has_too_many_places(edges[0]):
            found = cycled(sink, {"v": edges}, tmp_path / str(number))
            wrong |= {} if found is None else {name: found}
    assert wrong == {}


@turn(0, of=2)
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
    server: MariaDBServer, database: str, sink: TwoPhaseSink, batch: pa.RecordBatch, folder: Path, kinds: Kinds
) -> Found:
    if any(_has_too_many_places(kind) for kind in kinds.values()):
        reject()  # a start refuses them
    sink.forget(IDENTITY)  # of the cycle before
    committed_rows(sink, batch)
    columns = ", ".join(_read(kind, quoted(name)) for name, kind in kinds.items())
    rows = server.execute(f"SELECT {columns} FROM {quoted(_table(folder))} ORDER BY id", database=database)
    by_column = zip(*rows, strict=True)
    return {
        name: [_neutral(kind, value) for value in values]
        for (name, kind), values in zip(kinds.items(), by_column, strict=True)
    }


def _has_too_many_places(kind: Any) -> bool:
    return pa.types.is_decimal(kind) and kind.scale > 30


def _read(kind: pa.DataType, column: str) -> str:
    if pa.types.is_date(kind):
        return f"TO_DAYS({column}) - TO_DAYS('1970-01-01')"
    if pa.types.is_timestamp(kind):
        return f"TIMESTAMPDIFF(MICROSECOND, '1970-01-01', {column})"
    if pa.types.is_time(kind):
        return f"TIME_TO_SEC({column}) DIV 1 * 1000000000 + MICROSECOND({column}) * 1000"
    return f"CAST({column} AS DOUBLE)" if pa.types.is_float32(kind) else column


def _neutral(kind: pa.DataType, value: Any) -> Any:
    if value is None:
        return None
    if pa.types.is_nested(kind):
        return of_json(kind, parsed(value))
    if pa.types.is_boolean(kind):
        return {0: False, 1: True}[value]
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        return int(value)
    return float(np.float32(value)) if pa.types.is_float32(kind) else value


# --- what must be found ------------------------------------------------------------------------------------


def _in_json(kind: pa.DataType, value: Any) -> Any:
    return value


def _in_column(has_negative_zero: bool, kind: pa.DataType, value: Any) -> Any:
    """MySQL has no NaN and infinity, MariaDB no negative zero; dates have the years 1 to 9999, times no nanoseconds."""
    if isinstance(value, float):
        if not np.isfinite(value):
            raise Unwritable
        return value if has_negative_zero else value + 0.0
    if pa.types.is_date(kind) and not -719_162 <= value <= 2_932_896:
        raise Unwritable
    if pa.types.is_timestamp(kind) and not -719_162 <= value // 86_400_000_000 <= 2_932_896:
        raise Unwritable
    if pa.types.is_time(kind) and value % 1000:
        raise Unwritable
    return value
