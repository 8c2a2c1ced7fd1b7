"""Rows that go from query to query through an embedded channel, against a channel over Kafka with a broker beside it.

A job has two queries: a *writer*, from its source into the channel, and a *reader*, from the channel into Parquet
files. Both run at the same time, in one session on both sides. Only the channel differs. The broker has the same cores.

*Throughput*: two million rows of six columns from Parquet files, in ten epochs of the writer, at interval 0. The time
runs from the begin of the writer's first epoch until the reader has committed the last row. The figure is the time over
Kafka divided by the embedded one's.

*Latency*: ten rows an epoch, at interval 0 and at an interval of a second. The time runs from the begin of the writer's
epoch that takes a row until the reader has committed it. The figure is this time divided by one epoch of the writer and
one of the reader together; an epoch is the time from its begin to the begin of the next one. At interval 0 the reader
is always in an epoch when rows come, so a row waits for the end of that one, too: up to two epochs of the reader.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles

from pyspark.sql import SparkSession

from bench.epochs import SOURCE
from bench.figures import Better, Figure
from bench.hops import begun, done, seconds_until_shown
from bench.kafka_cluster import PARTITIONS, fast_broker
from bench.session import own_session
from bench.throughput import EPOCHS, ROWS_PER_EPOCH, SCHEMA, write_input
from tidegate import FileSink, FileSource, Job, JobHandle, KafkaChannel, SparkSource
from tidegate.operate.checkpoints_history import read_checkpoints
from tidegate.operate.done_checkpoint import DoneCheckpoint
from tidegate.testing.kafka.topics import make_topic

WRITER, READER = "write", "read"
SIDES = ("baseline", "tidegate")
"""Over Kafka, and embedded."""
_QUICK_SHARE = 10
_SPEED_GOAL = 0.8
INTERVALS: Mapping[float, float] = {0.0: 1.5, 1.0: 1.0}
"""Goals for the latency, by interval."""
_WARM_UP_SECONDS, _SECONDS = 3.0, 8.0
_QUICK_SECONDS = 4.0
_LOOK_SECONDS = 0.05
_BOUND_SECONDS = 300.0


def measure_throughput(rounds: int, *, quick: bool) -> list[Figure]:
    """Every round runs over Kafka, then embedded; a round before them warms the JVM."""
    rows = ROWS_PER_EPOCH // (_QUICK_SHARE if quick else 1)
    samples: dict[str, list[float]] = {}
    with _place() as place:
        write_input(place.folder / "in", rows)
        for number in range(rounds + 1):
            for side in SIDES:
                seconds = _seconds_of_rows(place, side, EPOCHS * rows)
                if number:
                    samples.setdefault(f"{side} s", []).append(seconds)
    return [speed(EPOCHS * rows, samples)]


def measure_latency(rounds: int, *, quick: bool) -> list[Figure]:
    """The same with few rows, at each interval. A short run of each side warms the JVM."""
    seconds = _QUICK_SECONDS if quick else _SECONDS
    figures: list[Figure] = []
    with _place() as place:
        for side in SIDES:
            _latency(place, side, 0.0, _QUICK_SECONDS)
        for interval in INTERVALS:
            found: dict[str, list[Latency]] = {side: [] for side in SIDES}
            for _ in range(rounds):
                for side, latencies in found.items():
                    latencies.append(_latency(place, side, interval, seconds))
            figures.append(latency_figure(interval, found, quick=quick))
    return figures


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds of one run: one epoch of the writer and one of the reader together, and of the rows the median, and what
    one in a hundred exceeds.
    """

    epochs: float
    rows: float
    slow_rows: float

    @classmethod
    def of(cls, writer: Sequence[DoneCheckpoint], reader: Sequence[DoneCheckpoint], since: float) -> Latency:
        """Of the epochs of both queries, in any order. `since`: when the first one begins that counts."""
        given, taken = ([each for each in begun(epochs) if each.at >= since] for epochs in (writer, reader))
        waits = seconds_until_shown(given, done(reader))
        each = [median(after.at - before.at for before, after in pairwise(steps)) for steps in (given, taken)]
        return cls(sum(each), median(waits), quantiles(waits, n=100, method="inclusive")[-1])


def speed(rows: int, samples: Mapping[str, list[float]]) -> Figure:
    """From the seconds of each round."""
    return Figure(
        name="channel-throughput",
        what=f"speed of {rows:,} rows through an embedded channel, from source to sink; baseline: a channel over Kafka",
        value=round(median(samples["baseline s"]) / median(samples["tidegate s"]), 2),
        unit="x",
        better=Better.HIGHER,
        goal=_SPEED_GOAL,
        samples=dict(samples),
    )


def latency_figure(interval: float, found: Mapping[str, Sequence[Latency]], *, quick: bool) -> Figure:
    """From one latency a round of each side."""
    return Figure(
        name=f"channel-latency-{interval:g}",
        what="time of a row through an embedded channel, from the begin of the writer's epoch until the reader has "
        f"committed it, divided by one epoch of each, interval {interval:g} s; baseline: a channel over Kafka",
        value=round(median(each.rows / each.epochs for each in found["tidegate"]), 2),
        unit="x",
        better=Better.LOWER,
        goal=None if quick else INTERVALS[interval],
        samples={
            f"{side} ms{of_what}": [round(1000 * of(each), 1) for each in latencies]
            for side, latencies in found.items()
            for of_what, of in _PARTS.items()
        },
    )


_PARTS: Mapping[str, Callable[[Latency], float]] = {
    "": lambda each: each.rows,
    " percentile 99": lambda each: each.slow_rows,
    " of both epochs": lambda each: each.epochs,
}


@dataclass(slots=True)
class _Place:
    """Where the runs of a benchmark are."""

    spark: SparkSession
    folder: Path
    servers: str
    runs: int = field(default=0)

    def job(self, side: str, interval: float) -> tuple[Job, Path]:
        """A job with a folder of its own, and that folder."""
        self.runs += 1
        place = self.folder / f"{side}-{self.runs}"
        place.mkdir()
        checkpoints = str(place / "jobs")
        return Job("bench", spark=self.spark, checkpointing_interval=interval, checkpointing_dir=checkpoints), place

    def over(self, side: str) -> KafkaChannel | None:
        """What the channel of a side is over."""
        return KafkaChannel(self.servers, make_topic(self.servers, PARTITIONS)) if side == "baseline" else None


@contextmanager
def _place() -> Generator[_Place]:
    with (
        tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder,
        fast_broker(Path(folder)) as broker,
        own_session() as spark,
    ):
        yield _Place(spark, Path(folder), broker.servers)


def _seconds_of_rows(at: _Place, side: str, rows: int) -> float:
    """Raises ValueError if the reader has not written each row once."""
    job, place = at.job(side, 0.0)
    source = FileSource(str(at.folder / "in"), format="parquet", schema=SCHEMA, maxFilesPerTrigger=1)
    channel = job.channel("rows", at.over(side))
    job.query(WRITER, job.source("source", source), sinks=[channel])
    sink = FileSink("sink", place / "out", format="parquet")
    job.query(READER, job.source("rows-in", channel), sinks=[sink])
    with _running(job) as handle:
        _await_rows(handle, rows)
    writer, reader = _epochs(place)
    if (found := done(reader)[-1].rows) != rows:
        raise ValueError(f"{side}: the reader has written {found} rows instead of {rows}")
    return round(done(reader)[-1].at - begun(writer)[0].at, 3)


def _latency(at: _Place, side: str, interval: float, seconds: float) -> Latency:
    job, place = at.job(side, interval)
    source = SparkSource("rate-micro-batch", schema=None, replayable=None, **SOURCE)
    channel = job.channel("rows", at.over(side))
    job.query(WRITER, job.source("source", source), sinks=[channel])
    sink = FileSink("sink", place / "out", format="parquet")
    job.query(READER, job.source("rows-in", channel), sinks=[sink])
    with _running(job) as handle:
        _await_rows(handle, 1)
        since = time.time() + _WARM_UP_SECONDS
        if handle.wait(_WARM_UP_SECONDS + seconds):
            raise RuntimeError("the job has ended")
    return Latency.of(*_epochs(place), since)


@contextmanager
def _running(job: Job) -> Generator[JobHandle]:
    handle = job.start()
    try:
        yield handle
    finally:
        handle.cancel()


def _await_rows(handle: JobHandle, rows: int) -> None:
    """Until the reader has committed so many."""
    end = time.monotonic() + _BOUND_SECONDS
    while (found := handle.status().queries[-1].rows) < rows:
        if handle.wait(_LOOK_SECONDS) or time.monotonic() > end:
            raise RuntimeError(f"the reader has committed {found} of {rows} rows")


def _epochs(place: Path) -> tuple[list[DoneCheckpoint], list[DoneCheckpoint]]:
    """Of the writer and of the reader."""
    found = read_checkpoints(place / "jobs" / "bench")
    return [each for each in found if each.query == WRITER], [each for each in found if each.query == READER]
