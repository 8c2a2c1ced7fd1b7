"""The Kafka sink under the contract of every two-phase sink, on a real broker with more partitions than cores."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest

from tests.kafka.seen import visible_now
from tidegate.channels.kafka import KafkaChannel, KafkaChannelSink
from tidegate.core.records import Answer, Attempt, Committable
from tidegate.sinks.base import SinkPlan, Transaction, TwoPhaseSink
from tidegate.sinks.kafka.sink import KafkaSink
from tidegate.sinks.rows import RowRefused
from tidegate.storages.schemes import Folder
from tidegate.testing.contract import IDENTITY, SCHEMA, Row, SinkContract
from tidegate.testing.kafka import Broker
from tidegate.testing.kafka.topics import make_topic

PARTITIONS = 8


class PartitionedSink(KafkaSink):
    """Each of the suite's transactions goes to a partition of its own: an open one holds up readers of its partition
    alone."""

    def begin(self, attempt: Attempt) -> Transaction:
        return _Partitioned(super().begin(attempt))

    def refused(self, batch: pa.RecordBatch) -> Sequence[RowRefused]:
        return super().refused(with_partition(batch))

    def redo(self, committable: Committable, batches: Iterable[pa.RecordBatch]) -> Answer:
        return super().redo(committable, map(with_partition, batches))


def with_partition(batch: pa.RecordBatch) -> pa.RecordBatch:
    numbers = (batch.column("id").fill_null(0).to_numpy() // 1000 % PARTITIONS).astype(np.int32)
    return batch.append_column("partition", pa.array(numbers))


class PartitionedChannel(PartitionedSink, KafkaChannelSink):
    """The writing end of a channel over Kafka."""


class _Partitioned(Transaction):
    def __init__(self, inner: Transaction) -> None:
        self._inner = inner

    def write(self, batch: pa.RecordBatch) -> None:
        self._inner.write(with_partition(batch))

    def pre_commit(self) -> Committable | None:
        return self._inner.pre_commit()

    def abort(self) -> None:
        self._inner.abort()


class TestKafka(SinkContract):
    notices_second_timeline = False
    kills_at_most = 8

    @pytest.fixture(autouse=True)
    def with_a_topic(self, broker: Broker, in_an_empty_folder: None, monkeypatch: pytest.MonkeyPatch) -> None:
        self.broker = broker
        self.topic = make_topic(broker.servers, PARTITIONS)
        monkeypatch.setenv("TIDEGATE_PLACE", str(self.folder / "place"))

    def make_sink(self) -> TwoPhaseSink:
        return PartitionedSink(
            "numbers",
            self.broker.servers,
            topic=self.topic,
            partition="partition",
            transactional_id_prefix=self.topic,
            transaction_timeout=60,
        )

    def plan(self) -> SinkPlan:
        plan = super().plan()
        schema = SCHEMA.append(pa.field("partition", pa.int32()))
        return SinkPlan(
            identity=plan.identity,
            schema=schema,
            mode=plan.mode,
            local_master=plan.local_master,
            read_journal=plan.read_journal,
        )

    def read_target(self) -> list[Row]:
        return [json.loads(row.value or b"") for row in visible_now(self.broker.servers, self.topic)]

    @contextmanager
    def elsewhere(self) -> Generator[None, None, None]:
        """What was prepared is aborted afterwards: the broker no longer has it."""
        yield
        sink = self.opened()
        sink.abort(sink.pending(IDENTITY))


@pytest.mark.more
class TestChannelOverKafka(TestKafka):
    def make_sink(self) -> TwoPhaseSink:
        over = KafkaChannel(self.broker.servers, self.topic, transactional_id_prefix=self.topic, transaction_timeout=60)
        sink = PartitionedChannel("numbers", Folder.of(self.folder / "channels" / "numbers"), over)
        sink.partition = "partition"
        return sink
