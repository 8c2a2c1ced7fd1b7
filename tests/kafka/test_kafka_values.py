"""Values of every type, written to a real broker, are what confluent-kafka's consumer reads."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.contract.value_sinks import SINKS, is_taken, of_bytes, of_messages
from tests.contract.values import all_edges, column_of, expected, same
from tidegate.core.records import Outcome
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.kafka.sink import KafkaSink
from tidegate.testing.contract import IDENTITY, attempt_of
from tidegate.testing.kafka import Broker
from tidegate.testing.kafka.topics import make_topic, read_all


def test_every_type_in_every_container_is_read_as_it_was_written(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_PLACE", str(tmp_path))
    topic = make_topic(broker.servers, 1)
    sink_of = partial(
        KafkaSink, "numbers", broker.servers, topic=topic, transactional_id_prefix=topic, transaction_timeout=60
    )
    in_json, plain = (all_edges(partial(is_taken, SINKS[name])) for name in ("Kafka JSON", "Kafka raw"))
    as_json, raw = sink_of(), sink_of(format="raw", key="v", value="v")
    commit(as_json, 1, in_json)
    for epoch, (kind, values) in enumerate(plain.values(), 2):
        commit(raw, epoch, {"v": (kind, values)})

    rows = read_all(broker.servers, topic)
    length = len(next(iter(in_json.values()))[1])
    kinds = {name: kind for name, (kind, _) in in_json.items()}
    found: dict[str, Any] = of_messages(as_json, kinds, [row.value for row in rows[:length]])
    wanted = {name: texts_of(kind, values) for name, (kind, values) in in_json.items()}
    assert [name for name in wanted if not same(wanted[name], found[name])] == []
    start = length
    for name, (kind, values) in plain.items():
        part = rows[start : start + len(values)]
        for each in ("key", "value"):
            assert same(texts_of(kind, values), [of_bytes(kind, getattr(row, each)) for row in part]), (name, each)
        start += len(values)
    assert len(rows) == start
    assert (len(in_json), len(plain)) == (83, 17)


def texts_of(kind: pa.DataType, values: list[Any]) -> list[Any]:
    return [expected(kind, value, replace=False) for value in values]


def commit(sink: KafkaSink, epoch: int, columns: dict[str, tuple[pa.DataType, list[Any]]]) -> None:
    arrays = [column_of(kind, values) for kind, values in columns.values()]
    batch = pa.RecordBatch.from_arrays(arrays, names=list(columns))
    assert not sink.refused(batch)
    plan = SinkPlan(identity=IDENTITY, schema=batch.schema, mode="append", local_master=True, read_journal=lambda _: ())
    sink.open(plan)
    transaction = sink.begin(attempt_of(epoch=epoch))
    transaction.write(batch)
    committable = transaction.pre_commit()
    assert committable is not None
    assert [answer.outcome for answer in sink.commit([committable])] == [Outcome.COMMITTED]
