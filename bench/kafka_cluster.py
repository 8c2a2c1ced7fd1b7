"""What the Kafka benchmarks share: a broker as fast as its JVM can be, topics, events, Spark's own connector."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.session import shared_session
from tidegate.testing.kafka import Broker
from tidegate.testing.kafka.jars import connector_jars
from tidegate.testing.kafka.topics import make_topic, messages, produce

PARTITIONS = 2
KEYS = 10_000
EVENT = "id LONG, key STRING, amount INT, text STRING"
_BROKER_JVM = ("-XX:TieredStopAtLevel=4", "-Xmx1g")


@dataclass(frozen=True, slots=True)
class Cluster:
    """A broker, and a session that has Spark's own connector beside tidegate's source."""

    spark: SparkSession
    servers: str

    def topic(self, name: str) -> str:
        """A new topic of two partitions."""
        return make_topic(self.servers, PARTITIONS, name=name)

    def events(self, count: int) -> str:
        """A new topic with so many JSON events of about 110 bytes."""
        return events_topic(self.servers, count)

    def read_by_spark(self, topic: str, **options: object) -> DataFrame:
        """The topic as a stream through Spark's own connector."""
        reader = self.spark.readStream.format("kafka").option("kafka.bootstrap.servers", self.servers)
        reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
        return reader.options(**{name: str(value) for name, value in options.items()}).load()

    def committed_rows(self, topic: str) -> int:
        """How many committed records the topic has."""
        return sum(1 for _ in messages(self.servers, topic))


@contextmanager
def cluster(folder: Path) -> Generator[Cluster]:
    """Both, for as long as they are needed."""
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {','.join(map(str, connector_jars(print)))} pyspark-shell"
    with fast_broker(folder) as broker, shared_session() as spark:
        yield Cluster(spark, broker.servers)


def fast_broker(folder: Path) -> Broker:
    """A new one, for the time of a `with`."""
    return Broker.start(folder / "broker", jvm=_BROKER_JVM)


def events_topic(servers: str, count: int) -> str:
    """A new topic of two partitions with so many JSON events of about 110 bytes."""
    topic = make_topic(servers, PARTITIONS, name="events")
    produce(servers, topic, _events(count))
    return topic


def parsed(records: DataFrame) -> DataFrame:
    """The events in the records of such a topic, a column each."""
    return records.select(F.from_json(F.col("value").cast("string"), EVENT).alias("event")).select("event.*")


def _events(count: int) -> Iterator[bytes]:
    for number in range(count):
        event = {"id": number, "key": f"key-{number * 7919 % KEYS:05}", "amount": number % 1000, "text": "x" * 50}
        yield msgspec.json.encode(event)


def sum_of_amounts(count: int) -> int:
    """Of so many events; it tells that none is missing and none there twice."""
    return sum(number % 1000 for number in range(count))
