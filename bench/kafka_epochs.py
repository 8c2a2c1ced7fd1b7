"""Small epochs into Kafka: what the sink costs, and how long a record takes from one topic into another.

*Sink cost*: ten rows an epoch, the next one at once; the time from `offsets/N` to `offsets/N+1` with tidegate's sink
minus that with Spark's own. *Visible*: a record every 10 ms, with the time in it; how long after that a reader that
sees committed records only has it, at each of the two levels that replay a failed epoch.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median, quantiles

from confluent_kafka import Consumer, Producer
from pyspark.sql import DataFrame

from bench.epochs import SOURCE
from bench.figures import Better, Figure
from bench.kafka_cluster import Cluster, cluster
from bench.seen import Seen, told
from tidegate import Job, KafkaSink, KafkaSource, SparkSource
from tidegate.core.levels import Level

_KEPT = "spark.sql.streaming.minBatchesToRetain"
_PAUSE_SECONDS = 0.01
_WARM_UP_SECONDS = 3.0
_BOUND_SECONDS = 120.0
_SINK_GOAL_MS = 30.0
INTERVALS: Mapping[float, tuple[float, float]] = {1.0: (0.60, 1.10), 0.0: (0.12, 0.22)}
"""Goals in seconds for the median and the 99th percentile, by interval."""
_SHARES = (50, 99)
_LEVELS = (Level.EXACTLY_ONCE, Level.AT_LEAST_ONCE)
_LEVEL_GOAL = 0.95
"""At-least-once is earlier than exactly-once by more than its rounds vary."""


def measure_sink(rounds: int, *, quick: bool) -> list[Figure]:
    """The sink's cost. Every round measures the baseline, then tidegate; a round before them warms the JVM."""
    warm_up, epochs = (20, 60) if quick else (50, 200)
    samples: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, cluster(Path(folder)) as kafka:
        for number in range(rounds + 1):
            for side, run in (("baseline", _run_baseline), ("tidegate", _run_tidegate)):
                place = Path(folder) / f"{side}-{number}"
                seen = run(kafka, kafka.topic("out"), place, warm_up + (epochs if number else 0))
                if number:
                    samples.setdefault(f"{side} epoch ms", []).append(seen.period_ms(warm_up))
    return [
        Figure(
            name="kafka-epoch",
            what="time added to an epoch: 10 rows into Kafka; baseline: Spark's own sink",
            value=round(median(samples["tidegate epoch ms"]) - median(samples["baseline epoch ms"]), 1),
            unit="ms",
            better=Better.LOWER,
            goal=_SINK_GOAL_MS,
            samples=samples,
        )
    ]


def measure_visible(rounds: int, *, quick: bool) -> list[Figure]:
    """How long until a record is visible, at each interval, exactly-once; and at-least-once against that. In a round
    the two levels take turns."""
    seconds = 10.0 if quick else 30.0
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, cluster(Path(folder)) as kafka:
        for interval, goals in INTERVALS.items():
            delays: dict[Level, list[list[float]]] = {}
            for number in range(rounds):
                for level in _LEVELS:
                    place = Path(folder) / f"{interval:g}-{level.value}-{number}"
                    delays.setdefault(level, []).append(_delays(kafka, level, interval, seconds, place))
            for share, goal in zip(_SHARES, goals, strict=True):
                exact, least = (quantile_of_each(delays[level], share) for level in _LEVELS)
                figures += visible_figures(interval, share, goal, exact, least)
    return figures


def quantile_of_each(delays: Sequence[Sequence[float]], share: int) -> list[float]:
    """Of each round's delays the percentile `share`."""
    return [round(quantiles(each, n=100)[share - 1], 3) for each in delays]


def visible_figures(
    interval: float, share: int, goal: float, exact: list[float], least: list[float]
) -> tuple[Figure, Figure]:
    """Of a percentile in each round: exactly-once in seconds, and at-least-once divided by it."""
    name = f"kafka-visible-{interval:g}-p{share}"
    what = "from a record's write into one topic until it is visible in the other"
    told = f"interval {interval:g} s, percentile {share}"
    return (
        Figure(
            name=name,
            what=f"{what}, {told}",
            value=round(median(exact), 3),
            unit="s",
            better=Better.LOWER,
            goal=goal,
            samples={"tidegate s": exact},
        ),
        Figure(
            name=f"{name}-level",
            what=f"the same at-least-once, against exactly-once, {told}",
            value=round(median(least) / median(exact), 2),
            unit="x",
            better=Better.LOWER,
            goal=_LEVEL_GOAL,
            samples={"baseline s": exact, "tidegate s": least},
        ),
    )


def _rows(rows: DataFrame) -> DataFrame:
    return rows.selectExpr("CAST(value AS STRING) AS key", "CAST(value * 2 AS STRING) AS value")


def _run_baseline(kafka: Cluster, out: str, place: Path, epochs: int) -> Seen:
    """Its times are those of Spark's log, which must keep them for so long."""
    kept = kafka.spark.conf.get(_KEPT)
    kafka.spark.conf.set(_KEPT, str(epochs + 10))
    try:
        return _run_plain(kafka, out, place, epochs)
    finally:
        kafka.spark.conf.set(_KEPT, str(kept))


def _run_plain(kafka: Cluster, out: str, place: Path, epochs: int) -> Seen:
    rows = kafka.spark.readStream.format("rate-micro-batch").options(**SOURCE).load()
    query = (
        _rows(rows)
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", kafka.servers)
        .option("topic", out)
        .option("checkpointLocation", str(place))
        .trigger(processingTime="0 seconds")
        .start()
    )
    try:
        _wait_for(place / "offsets" / str(epochs + 1))
    finally:
        query.stop()
    return Seen.of_logs(place / "offsets", place / "commits", epochs)


def job_of(kafka: Cluster, out: str, place: Path) -> Job:
    """Ten rows an epoch into the topic `out`, the next epoch at once; checkpoints in `place`."""
    job = Job("bench", spark=kafka.spark, checkpointing_interval=0, checkpointing_dir=str(place))
    rows = job.source("source", SparkSource("rate-micro-batch", schema=None, replayable=None, **SOURCE))
    job.query("query", _rows(rows), sinks=[KafkaSink("sink", kafka.servers, topic=out, format="raw")])
    return job


def _run_tidegate(kafka: Cluster, out: str, place: Path, epochs: int) -> Seen:
    seen = Seen.of_job(place, epochs)
    with told(seen):
        handle = job_of(kafka, out, place).start()
        try:
            seen.wait()
        finally:
            handle.stop()
    return seen


def _delays(kafka: Cluster, level: Level, interval: float, seconds: float, place: Path) -> list[float]:
    """Seconds from write to visibility of each record that was read in so many seconds after the first epochs."""
    source, out = kafka.topic("in"), kafka.topic("out")
    job = Job(
        "bench",
        spark=kafka.spark,
        checkpointing_interval=interval,
        checkpointing_dir=str(place),
        checkpointing_mode=level.value,
    )
    records = job.source("source", KafkaSource(kafka.servers, topics=[source]))
    sink = KafkaSink("sink", kafka.servers, topic=out, format="raw", select=["value"])
    job.query("query", records.select("value"), sinks=[sink])
    handle, enough = job.start(), threading.Event()
    writer = threading.Thread(target=_write, args=(kafka.servers, source, enough))
    writer.start()
    try:
        return _read(kafka.servers, out, warm_up=_WARM_UP_SECONDS + 3 * interval, seconds=seconds)
    finally:
        enough.set()
        writer.join()
        handle.stop()


def _write(servers: str, topic: str, enough: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
    while not enough.wait(_PAUSE_SECONDS):
        producer.produce(topic, f"{time.time():.6f}")
        producer.poll(0)
    producer.flush(_BOUND_SECONDS)


def _read(servers: str, topic: str, *, warm_up: float, seconds: float) -> list[float]:
    """The delays of the records that come in `seconds`, from `warm_up` after the first one on."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"bench-{topic}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 10,
        }
    )
    consumer.subscribe([topic])
    delays: list[float] = []
    begin: float | None = None
    give_up = time.time() + _BOUND_SECONDS
    try:
        while time.time() < (give_up if begin is None else begin + seconds):
            message = consumer.poll(0.1)
            if message is None or message.error() is not None:
                continue
            now = time.time()
            begin = now + warm_up if begin is None else begin
            if now >= begin:
                delays.append(now - float(message.value() or b"0"))
    finally:
        consumer.close()
    return delays


def _wait_for(file: Path) -> None:
    end = time.monotonic() + 300
    while not file.exists():
        if time.monotonic() > end:
            raise TimeoutError(f"{file.name} did not come")
        time.sleep(0.05)
