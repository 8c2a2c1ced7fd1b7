"""Kafka at scale: an epoch of ten rows from 64 partitions, and the memory of the workers over a hundred epochs.

*Partitions*: records wait in the topic, an epoch takes ten of them, and the next one begins at once. The same job reads
2 partitions (the columns call it the baseline) and 64, in turns. *Memory*: a count by key from topic to topic, a
thousand records an epoch; the resident size of all its Python workers after 10 epochs and after 100.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from pyspark.sql import functions as F

from bench.figures import Better, Figure
from bench.footprint import cpu_seconds_of_session
from bench.growth import workers_of
from bench.kafka_cluster import EVENT, PARTITIONS, Cluster, cluster
from bench.seen import Seen, told
from tidegate import JSON, Job, KafkaSink, KafkaSource
from tidegate.testing.kafka.topics import TopicRecord, make_topic, produce

MANY_PARTITIONS = 64
_ROWS = 10
_WARM_UP = 20
_EPOCHS, _QUICK_EPOCHS = 100, 30
_EARLY, _LATE = 10, 100
_ROWS_OF_MEMORY = 1000
_GOAL_PERCENT = 10.0


def measure_partitions(rounds: int, *, quick: bool) -> list[Figure]:
    """Every round reads 2 partitions, then 64; a round before them warms the JVM."""
    epochs = _QUICK_EPOCHS if quick else _EPOCHS
    samples: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, cluster(Path(folder)) as kafka:
        topics = {
            side: _topic_of(kafka.servers, partitions, _ROWS * (_WARM_UP + epochs + 10))
            for side, partitions in (("baseline", PARTITIONS), ("tidegate", MANY_PARTITIONS))
        }
        for number in range(rounds + 1):
            for side, topic in topics.items():
                before = cpu_seconds_of_session()
                seen = _copied(kafka, topic, Path(folder) / f"{side}-{number}", _WARM_UP + (epochs if number else 1))
                if number:
                    each_ms = (cpu_seconds_of_session() - before) / (_WARM_UP + epochs) * 1000
                    samples.setdefault(f"{side} epoch ms", []).append(seen.period_ms(_WARM_UP))
                    samples.setdefault(f"{side} CPU ms an epoch", []).append(round(each_ms, 1))
    return [
        Figure(
            name="scale-partitions",
            what=f"time of an epoch of {_ROWS} records from {MANY_PARTITIONS} partitions of a topic; "
            f"baseline: from {PARTITIONS}",
            value=round(median(samples["tidegate epoch ms"]) / median(samples["baseline epoch ms"]), 2),
            unit="x",
            better=Better.LOWER,
            goal=None,
            samples=samples,
        )
    ]


def measure_memory(rounds: int, *, quick: bool) -> list[Figure]:
    """One run, whatever `rounds` and `quick` say: it takes a minute, and what grows shows in one."""
    del rounds, quick
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, cluster(Path(folder)) as kafka:
        source = kafka.events(_ROWS_OF_MEMORY * (_LATE + 10))
        job = Job("bench", spark=kafka.spark, checkpointing_interval=0, checkpointing_dir=folder)
        records = job.source(
            "source", KafkaSource(kafka.servers, topics=[source], max_rows=_ROWS_OF_MEMORY, value=JSON(EVENT))
        )
        counts = records.select("value.*").groupBy("key").agg(F.count("*").alias("count"))
        sink = KafkaSink("sink", kafka.servers, topic=kafka.topic("out"), key="key")
        job.query("query", counts, mode="update", sinks=[sink])
        early, late = Seen.of_job(Path(folder), _EARLY), Seen.of_job(Path(folder), _LATE)
        with told(early), told(late):
            handle = job.start()
            try:
                sizes: list[list[float]] = []
                for seen in (early, late):
                    seen.wait()
                    sizes.append(workers_of(kafka.spark))
            finally:
                handle.stop()
    return [memory(*sizes)]


def memory(early: list[float], late: list[float]) -> Figure:
    """From the resident sizes of all workers in MiB. Raises ValueError where none was seen."""
    if not early or not late:
        raise ValueError(f"{len(early)} Python workers were seen, then {len(late)}")
    return Figure(
        name="scale-workers",
        what=f"growth of all Python workers' resident size from epoch {_EARLY} to {_LATE}: a count from topic to topic",
        value=round((sum(late) / sum(early) - 1) * 100, 1),
        unit="%",
        better=Better.LOWER,
        goal=_GOAL_PERCENT,
        samples={
            "early MiB": [round(sum(early), 1)],
            "early workers": [float(len(early))],
            "late MiB": [round(sum(late), 1)],
            "late workers": [float(len(late))],
        },
    )


def _topic_of(servers: str, partitions: int, rows: int) -> str:
    """A new topic, with so many records shared out evenly."""

    def records() -> Iterator[TopicRecord]:
        for number in range(rows):
            yield TopicRecord(b"%d" % number, partition=number % partitions)

    topic = make_topic(servers, partitions, name="in")
    produce(servers, topic, records())
    return topic


def _copied(kafka: Cluster, topic: str, place: Path, epochs: int) -> Seen:
    job = Job("bench", spark=kafka.spark, checkpointing_interval=0, checkpointing_dir=str(place))
    records = job.source("source", KafkaSource(kafka.servers, topics=[topic], max_rows=_ROWS))
    sink = KafkaSink("sink", kafka.servers, topic=kafka.topic("out"), format="raw", select=["value"])
    job.query("query", records.select("value"), sinks=[sink])
    seen = Seen.of_job(place, epochs)
    with told(seen):
        handle = job.start()
        try:
            seen.wait()
        finally:
            handle.stop()
    return seen
