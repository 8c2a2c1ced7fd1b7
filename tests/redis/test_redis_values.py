"""Every value that the Redis sink takes as a field of a hash is what its reader gets, and no other row is refused."""

from __future__ import annotations

import secrets
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.contract.draws import search
from tests.contract.value_sinks import Found, Kinds, ValueSink, cycled, is_taken, of_json, of_text, parsed
from tests.contract.values import CONTAINERS, TYPES, contained
from tests.support.redis import PASSWORD, RedisServer
from tests.support.staged import plan
from tests.support.today import turn
from tidegate.core.records import Outcome
from tidegate.sinks.base import TwoPhaseSink
from tidegate.sinks.redis.sink import RedisSink
from tidegate.sinks.value_table import TABLE, RefusedType, Target, kind_of
from tidegate.testing.contract import IDENTITY, attempt_of

_DRAWS = 8


@pytest.fixture(scope="module")
def sink(redis_server: RedisServer) -> ValueSink:
    return ValueSink(
        Target.REDIS,
        lambda _, replace: RedisSink(
            "out",
            redis_server.url,
            prefix=f"values-{secrets.token_hex(8)}",
            key="id",
            invalid_text="replace" if replace else "refuse",
            options={"password": PASSWORD},
        ),
        partial(_cycle, redis_server),
    )


@turn(0, of=2)
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


def _cycle(server: RedisServer, sink: TwoPhaseSink, batch: pa.RecordBatch, _: Path, kinds: Kinds) -> Found:
    assert isinstance(sink, RedisSink)
    sink.open(plan(batch.schema))
    assert sink.begin_run(IDENTITY, 1, attempt_of().run_token) is None
    transaction = sink.begin(attempt_of())
    transaction.write(batch)
    committable = transaction.pre_commit()
    assert committable is not None
    assert [answer.outcome for answer in sink.commit([committable])] == [Outcome.COMMITTED]
    numbers: Any = batch.column("id").to_pylist()
    with server.client(decode_responses=False) as client:
        keys = [f"{sink.names.prefix}:{number}" for number in sorted(numbers)]
        rows: list[dict[bytes, bytes]] = [client.hgetall(key) for key in keys]
    return {name: [_read(kind, row.get(name.encode())) for row in rows] for name, kind in kinds.items()}


def _read(kind: pa.DataType, value: bytes | None) -> Any:
    if value is None or pa.types.is_binary(kind):
        return value
    return of_json(kind, parsed(value)) if pa.types.is_nested(kind) else of_text(kind, value.decode())
