"""How fast two million JSON events of about 110 bytes go from one topic into another, against Spark's own sink.

Ten epochs of 200,000 events, two partitions. *map*: each event is parsed, one column computed, and written as JSON.
*count*: count and sum by 10,000 keys, every change of an epoch written. The baseline reads and writes through Spark's
own connector, which promises at-least-once, and parses with `from_json`; tidegate's source parses while it reads. The
time is that from `offsets/0` until the last row can be read, and with the start of the query in it. The figure is
tidegate's time divided by the baseline's.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bench.figures import Better, Figure
from bench.kafka_cluster import EVENT, KEYS, Cluster, cluster, parsed
from bench.seen import Seen, told
from tidegate import JSON, Job, KafkaSink, KafkaSource

EPOCHS = 10
_EVENTS_PER_EPOCH = 200_000
_QUICK_SHARE = 20
_GOAL = 0.80


@dataclass(frozen=True, slots=True)
class Case:
    """What is done with the events; `rows` says how many rows may come out when each epoch has so many events."""

    what: str
    query: Callable[[DataFrame], DataFrame]
    mode: Literal["append", "update"]
    rows: Callable[[int], range]


def _mapped(events: DataFrame) -> DataFrame:
    return events.select("id", "key", (F.col("amount") * 2).alias("twice"), "text")


def _counted(events: DataFrame) -> DataFrame:
    return events.groupBy("key").agg(F.count("*").alias("count"), F.sum("amount").alias("sum"))


def _each_once(events: int) -> range:
    return range(EPOCHS * events, EPOCHS * events + 1)


def _every_key(events: int) -> range:
    """An epoch writes the keys that it has events of: partitions are not cut where the keys begin again, and Spark's
    connector rounds its limit for each partition, which may leave a few events to an epoch more."""
    return range(KEYS, (EPOCHS + 1) * min(events, KEYS) + 1)


CASES: Mapping[str, Case] = {
    "kafka-map": Case("each event parsed, changed and written", _mapped, "append", _each_once),
    "kafka-count": Case("count and sum by 10,000 keys", _counted, "update", _every_key),
}


def measure(name: str, rounds: int, *, quick: bool) -> list[Figure]:
    """The figures of one case. Every round measures the baseline, then tidegate; a round before them warms the JVM."""
    case, events = CASES[name], _EVENTS_PER_EPOCH // (_QUICK_SHARE if quick else 1)
    samples: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, cluster(Path(folder)) as kafka:
        source = kafka.events(EPOCHS * events)
        for number in range(rounds + 1):
            for side, run in (("baseline", _run_baseline), ("tidegate", _run_tidegate)):
                place, out = Path(folder) / f"{side}-{number}", kafka.topic("out")
                begun = time.time()
                seen = run(case, kafka, source, out, events, place)
                if (found := kafka.committed_rows(out)) not in case.rows(events):
                    raise ValueError(f"{side} wrote {found} rows, which are not in {case.rows(events)}")
                if number:
                    samples.setdefault(f"{side} s", []).append(round(seen.seconds(EPOCHS - 1), 3))
                    with_start = round(seen.visible[EPOCHS - 1] - begun, 3)
                    samples.setdefault(f"{side} s with its start", []).append(with_start)
    return [
        Figure(
            name=name,
            what=f"time of {EPOCHS * events:,} events from topic to topic, {case.what}; baseline: Spark's own sink",
            value=round(median(samples["tidegate s"]) / median(samples["baseline s"]), 2),
            unit="x",
            better=Better.LOWER,
            goal=_GOAL,
            samples=samples,
        )
    ]


def _run_baseline(case: Case, kafka: Cluster, source: str, out: str, events: int, place: Path) -> Seen:
    """Its rows can be read when an epoch is in `commits`: the sink has been flushed by then."""
    values = case.query(parsed(kafka.read_by_spark(source, maxOffsetsPerTrigger=events))).selectExpr(
        "CAST(key AS STRING) AS key", "to_json(struct(*)) AS value"
    )
    query = (
        values.writeStream.format("kafka")
        .option("kafka.bootstrap.servers", kafka.servers)
        .option("topic", out)
        .outputMode(case.mode)
        .option("checkpointLocation", str(place))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return Seen.of_logs(place / "offsets", place / "commits", EPOCHS)


def _run_tidegate(case: Case, kafka: Cluster, source: str, out: str, events: int, place: Path) -> Seen:
    job = Job("bench", spark=kafka.spark, checkpointing_interval=0, checkpointing_dir=str(place))
    records = job.source("source", KafkaSource(kafka.servers, topics=[source], max_rows=events, value=JSON(EVENT)))
    sink = KafkaSink("sink", kafka.servers, topic=out, key="key")
    job.query("query", case.query(records.select("value.*")), mode=case.mode, sinks=[sink])
    seen = Seen.of_job(place, EPOCHS)
    with told(seen):
        job.run(until="caught-up")
    return seen
