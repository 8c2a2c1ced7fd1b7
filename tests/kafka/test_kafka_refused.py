"""Rows that a topic, its brokers or the client would not take are found before anything is written, and no others."""

from __future__ import annotations

import random
import secrets
import uuid
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.kafka.seen import visible_now
from tidegate.core.errors import Code, TidegateError
from tidegate.sinks.base import Transaction
from tidegate.sinks.kafka.sink import KafkaSink
from tidegate.sinks.kafka.transaction import TransactionBroken
from tidegate.sinks.rows import RowRefused
from tidegate.testing.contract import attempt_of
from tidegate.testing.kafka import Broker
from tidegate.testing.kafka.topics import make_topic

LIMIT = 3000


@pytest.fixture(autouse=True)
def in_a_place_of_its_own(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_PLACE", str(tmp_path / "place"))


def sink_of(broker: Broker, topic: str | None, options: Mapping[str, Any] | None = None, **more: Any) -> KafkaSink:
    prefix = uuid.uuid4().hex
    return KafkaSink(
        "numbers",
        broker.servers,
        topic=topic,
        format="raw",
        transactional_id_prefix=prefix,
        transaction_timeout=60,
        options=options,
        **more,
    )


def batch_of(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


class PlainProducer:
    """What the broker and the client say to single records."""

    def __init__(self, broker: Broker, topic: str, options: Mapping[str, Any]) -> None:
        settings = {"bootstrap.servers": broker.servers, "linger.ms": 0, "log_level": 0, **options}
        self._topic = topic
        self._producer = Producer(settings)

    def takes(self, value: bytes) -> bool:
        answers: list[Any] = []
        try:
            self._producer.produce(self._topic, value, b"k", on_delivery=lambda error, _: answers.append(error))
        except KafkaException as error:
            answers.append(error)
        self._producer.flush()
        return all(answer is None for answer in answers)


HEX = random.Random(1).randbytes(8000).hex().encode()
"""Its beginnings compress to about half of their size, by most codecs."""


@pytest.mark.parametrize("codec", ["none", "lz4", "zstd", "gzip", "snappy"])
def test_a_row_is_too_large_exactly_where_the_broker_says_so(broker: Broker, codec: str) -> None:
    topic = make_topic(broker.servers, 1, config={"max.message.bytes": str(LIMIT)})
    options = {"compression.type": codec}
    plain = PlainProducer(broker, topic, options)
    largest = bisect_left(range(len(HEX)), True, key=lambda size: not plain.takes(HEX[:size]))
    sizes = sorted({*range(largest - 3, largest + 4), largest - 200, largest * 2 // 3, largest + 200, len(HEX)})
    values = [HEX[:size] for size in sizes]
    refused = {each.row for each in sink_of(broker, topic, options).refused(keyed(values))}
    taken = [plain.takes(value) for value in values]
    assert [row not in refused for row in range(len(values))] == taken
    assert 0 < len(refused) < len(values)


def keyed(values: Sequence[bytes]) -> pa.RecordBatch:
    return batch_of(key=[b"k"] * len(values), value=values)


def test_what_the_client_itself_would_not_send_is_refused_to_the_byte(broker: Broker) -> None:
    topic = make_topic(broker.servers, 1)
    options = {"message.max.bytes": 2000}
    plain = PlainProducer(broker, topic, options)
    values = [b"x" * size for size in range(1945, 1975)]
    refused = {each.row for each in sink_of(broker, topic, options).refused(keyed(values))}
    taken = [plain.takes(value) for value in values]
    assert [row not in refused for row in range(30)] == taken
    assert {True, False} == set(taken)


def test_each_refusal_names_its_column_topic_key_and_remedy(broker: Broker) -> None:
    small = make_topic(broker.servers, 4, config={"max.message.bytes": "1000"})
    compacted = make_topic(broker.servers, 1, config={"cleanup.policy": "compact,delete"})
    good = make_topic(broker.servers, 4)
    rows: list[tuple[str, bytes | None, int | None, bytes]] = [
        (good, None, 3, b"taken"),
        (small, b"k1", None, secrets.token_bytes(1000)),
        (good, b"k2", 4, b"no such partition"),
        ("there-is-none", b"k3", None, b"no such topic"),
        ("no topic / at all", b"k4", None, b"no name of a topic"),
        (compacted, None, None, b"no key"),
        (compacted, b"k5", 0, b"taken"),
        ("", b"k6", None, b"no topic"),
    ]
    columns: dict[str, list[Any]] = dict(
        zip(("topic", "key", "partition", "value"), map(list, zip(*rows, strict=True)), strict=True)
    )
    batch = pa.RecordBatch.from_pydict(columns, schema=ROUTED)
    sink = sink_of(broker, None)
    found = {each.row: each for each in sink.refused(batch)}
    assert {row: (each.catalogue_entry, each.column) for row, each in found.items()} == {
        1: (Code.RECORD_REFUSED, "value"),
        2: (Code.RECORD_REFUSED, "partition"),
        3: (Code.KAFKA_TOPIC_MISSING, "topic"),
        4: (Code.KAFKA_TOPIC_MISSING, "topic"),
        5: (Code.RECORD_REFUSED, "key"),
        7: (Code.KAFKA_TOPIC_MISSING, "topic"),
    }
    assert f"kafka-configs --bootstrap-server {broker.servers} --alter" in found[1].next_step
    assert [found[row].details["topic"] for row in (1, 2, 5)] == [small, good, compacted]
    assert [found[row].details["key"] for row in (1, 2, 5)] == ["'k1'", "'k2'", "none"]
    agree(sink, batch)


ROUTED = pa.schema([("topic", pa.string()), ("key", pa.binary()), ("partition", pa.int32()), ("value", pa.binary())])


def agree(sink: KafkaSink, batch: pa.RecordBatch) -> None:
    """`write` refuses what `refused` names, and takes all others."""
    refused = {each.row for each in sink.refused(batch)}
    transaction = sink.begin(attempt_of())
    for row in range(batch.num_rows):
        with pytest.raises(RowRefused) if row in refused else nullcontext():
            transaction.write(batch.take(pa.array([row])))
    committable = transaction.pre_commit()
    assert committable is not None
    assert committable.rows == batch.num_rows - len(refused)
    transaction.abort()


def test_a_topic_that_the_program_names_and_that_is_gone_is_no_fault_of_its_rows(broker: Broker) -> None:
    sink = sink_of(broker, "there-is-none")
    batch = batch_of(value=[b"a"])
    assert not sink.refused(batch)
    transaction = sink.begin(attempt_of())
    with pytest.raises(TidegateError) as caught:
        written_on(transaction, batch)
    transaction.abort()
    assert caught.value.catalogue_entry is Code.KAFKA_TOPIC_MISSING


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_rows_that_fit_alone_are_taken_together_by_a_topic_with_a_small_limit(broker: Broker, compression: str) -> None:
    """The client fills its batches up to a million bytes, whatever the topic takes."""
    topic = make_topic(broker.servers, 2, config={"max.message.bytes": "2000"})
    sink = sink_of(broker, topic, {"compression.type": compression})
    values = [secrets.token_bytes(random.Random(n).randrange(1, 1900)) for n in range(300)]
    transaction = sink.begin(attempt_of())
    transaction.write(batch_of(value=values))
    committable = transaction.pre_commit()
    assert committable is not None
    sink.commit([committable])
    assert sorted(row.value or b"" for row in visible_now(broker.servers, topic)) == sorted(values)


def test_a_limit_that_is_lowered_while_the_job_runs_loses_nothing_and_is_known_to_the_next_attempt(
    broker: Broker,
) -> None:
    topic = make_topic(broker.servers, 1)
    sink = sink_of(broker, topic)
    batch = batch_of(value=[b"small", secrets.token_bytes(5000)])
    assert not sink.refused(batch)
    set_limit(broker, topic, 1000)
    transaction = sink.begin(attempt_of())
    with pytest.raises((TransactionBroken, RowRefused)):
        written_on(transaction, batch)
    transaction.abort()
    again = batch_of(value=batch.column(0))
    assert [each.row for each in sink.refused(again)] == [1]


def test_a_limit_that_is_raised_while_the_job_runs_refuses_nothing_any_more(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.sinks.kafka.topic_limits._FRESH_SECONDS", 0.0)
    topic = make_topic(broker.servers, 1, config={"max.message.bytes": "1000"})
    sink = sink_of(broker, topic)
    value = secrets.token_bytes(5000)
    assert [each.row for each in sink.refused(batch_of(value=[value]))] == [0]
    set_limit(broker, topic, 100_000)
    assert not sink.refused(batch_of(value=[value]))


def written_on(transaction: Transaction, batch: pa.RecordBatch) -> None:
    transaction.write(batch)
    transaction.pre_commit()


def set_limit(broker: Broker, topic: str, most_bytes: int) -> None:
    entry = ConfigEntry("max.message.bytes", str(most_bytes), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": broker.servers})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result()
