"""The Kafka source under the contract that tidegate ships, as Spark asks it."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence

import pytest

from tests.integration.place import wait_until
from tidegate import KafkaSource, TidegateError
from tidegate.core.levels import Level
from tidegate.logs.subject import subject
from tidegate.source_api import Source
from tidegate.sources.base import Begins
from tidegate.sources.kafka.offsets import Bounds
from tidegate.spark.arrow_schema import arrow_schema
from tidegate.spark.sources.kafka_stream import KafkaPositions, RecordsOfTask, columns_of
from tidegate.spark.telling import WORD
from tidegate.testing.kafka import Broker
from tidegate.testing.kafka.topics import PARTITIONS, make_topic, produce
from tidegate.testing.kafka.topics import TopicRecord as Record
from tidegate.testing.source_contract import Row, SourceContract
from tidegate.testing.source_readings import ReadingPlace, SourceReading

WHERE = "source records"


class TestKafkaSource(SourceContract):
    """Its secret is no login that the broker asks for: it is only kept out of descriptions."""

    secrets = ("hunter2",)

    @pytest.fixture(autouse=True)
    def _topic(self, broker: Broker) -> None:
        self.servers = broker.servers
        self.topic = make_topic(broker.servers, PARTITIONS)
        wait_until(self._has_leaders, "a leader of each partition")

    def _has_leaders(self) -> bool:
        try:
            KafkaSource(self.servers, topics=[self.topic]).begin(WHERE, Level.EXACTLY_ONCE, 1)
        except TidegateError:
            return False
        return True

    def make_source(self) -> Source:
        return KafkaSource(self.servers, topics=[self.topic], options={"sasl.password": "hunter2"})

    def add(self, rows: Sequence[Row]) -> None:
        records = [Record(json.dumps(row).encode(), partition=row["id"] % PARTITIONS) for row in rows]
        produce(self.servers, self.topic, records)

    def reading(self, source: Source) -> SourceReading:
        return KafkaReading(KafkaSource(self.servers, topics=[self.topic]))

    def row_of(self, row: Row) -> Row:
        return json.loads(row["value"])


class KafkaReading(SourceReading):
    def __init__(self, source: KafkaSource) -> None:
        self._source = source
        self._reading = source._reading(WHERE)
        bounds = Bounds.from_text(self._source.begin(WHERE, Level.EXACTLY_ONCE, 1))
        self._positions = KafkaPositions(self._reading, bounds, lambda: 2)

    def begin(self, where: Begins) -> ReadingPlace:
        level = Level.AT_MOST_ONCE if where is Begins.NEWEST else Level.EXACTLY_ONCE
        return Bounds.from_text(self._source.begin(WHERE, level, 1)).start.to_json()

    def end(self, start: ReadingPlace) -> ReadingPlace:
        return json.loads(json.dumps(self._positions.after(start)))

    def rows(self, start: ReadingPlace, end: ReadingPlace) -> list[Row]:
        made = RecordsOfTask(self._reading, arrow_schema(columns_of(self._reading, None)), subject(), WORD)
        records, wanted = pickle.loads(pickle.dumps((made, self._positions.parts(start, end))))
        return [row for each in wanted for batch in records(each) for row in batch.to_pylist()]

    def stop(self) -> None:
        self._positions.catch_up()


def test_a_task_reads_several_partitions_one_after_another_and_the_same_worker_reads_them_again(broker: Broker) -> None:
    topic = make_topic(broker.servers, partitions=8)
    produce(broker.servers, topic, [Record(json.dumps(number).encode(), partition=number % 8) for number in range(40)])
    reading = KafkaReading(KafkaSource(broker.servers, topics=[topic]))
    start = reading.begin(Begins.OLDEST)
    wait_until(lambda: sum(reading.end(start)[topic].values()) == 40, "all records")
    end = reading.end(start)
    assert len(reading._positions.parts(start, end)) == 2
    for _ in range(2):
        rows = reading.rows(start, end)
        assert sorted((row["partition"], int(row["value"])) for row in rows) == sorted(
            (number % 8, number) for number in range(40)
        )
        assert all(
            [row["offset"] for row in rows if row["partition"] == partition] == list(range(5)) for partition in range(8)
        )
