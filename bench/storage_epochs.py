"""What an epoch of ten rows costs where the checkpoints are on HDFS and S3.

One query counts by key (rocksdb) into SQLite on this machine, at interval 0, in one session. Only the place of the
checkpoints differs: a local disk, HDFS, S3; and once plain Spark runs the query with its checkpoint on S3. The sides
take turns. An epoch's time is that from the begin of its trigger to the begin of the next one, as Spark reports it.
The servers run on the same cores, on loopback.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bench.epochs import CASES, SOURCE, Case
from bench.figures import Better, Figure
from bench.storage_servers import storage_servers
from tidegate import Job, SparkSource
from tidegate.settings.reading import read_settings
from tidegate.spark.connectors import storage_conf
from tidegate.spark.query_conf import query_conf
from tidegate.spark.session import open_session
from tidegate.storages.schemes import Folder

_CASE: Case = CASES["epoch-stateful"]
_BOUND_SECONDS = 60.0
_SECONDS_AN_EPOCH = 5.0
_LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Side:
    """A way to run the query: `run` does so in a folder of the checkpoints until `epochs` have begun, in `place`."""

    name: str
    checkpoints: Folder
    run: Callable[[SparkSession, Folder, Path, int], list[float]]


def measure(rounds: int, *, quick: bool) -> list[Figure]:
    """Both figures: the ratio of HDFS to the disk, and the milliseconds that tidegate adds on S3."""
    warm_up, epochs = (10, 20) if quick else (20, 50)
    samples: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, _sides(Path(folder)) as (session, sides):
        for number in range(rounds + 1):
            for side in sides:
                place = Path(folder) / f"{side.name}-{number}"
                place.mkdir()
                begun = side.run(session, side.checkpoints / str(number), place, warm_up + (epochs if number else 0))
                if number:
                    periods = [
                        after - before for before, after in zip(begun[warm_up:], begun[warm_up + 1 :], strict=False)
                    ]
                    samples.setdefault(side.name, []).append(round(median(periods) * 1000, 1))
    disk, hdfs, s3, plain_s3 = (median(samples[name]) for name in ("disk", "hdfs", "s3", "plain s3"))
    return [
        Figure(
            name="storage-hdfs",
            what="an epoch of 10 rows, counted by key, with its checkpoints on HDFS, against a local disk",
            value=round(hdfs / disk, 2),
            unit="x",
            better=Better.LOWER,
            goal=None if quick else 2.0,
            samples={"baseline epoch ms": samples["disk"], "tidegate epoch ms": samples["hdfs"]},
        ),
        Figure(
            name="storage-s3",
            what="time added to an epoch of 10 rows, counted by key, with its checkpoints on S3",
            value=round(s3 - plain_s3, 1),
            unit="ms",
            better=Better.LOWER,
            goal=None if quick else 150.0,
            samples={"baseline epoch ms": samples["plain s3"], "tidegate epoch ms": samples["s3"]},
        ),
    ]


@contextmanager
def _sides(folder: Path) -> Generator[tuple[SparkSession, list[Side]]]:
    """The servers, a session that reaches them, and the sides."""
    with storage_servers(folder) as servers:
        on = servers.folders()
        session = open_session("bench", read_settings({"checkpointing.dir": str(on["s3"])}, {}))
        session.sparkContext.setLogLevel("OFF")
        try:
            yield (
                session,
                [
                    Side("disk", Folder.of(folder / "checkpoints"), _tidegate),
                    Side("hdfs", on["hdfs"], _tidegate),
                    Side("s3", on["s3"] / "tidegate", _tidegate),
                    Side("plain s3", on["s3"] / "plain", _plain),
                ],
            )
        finally:
            session.stop()


def _tidegate(session: SparkSession, checkpoints: Folder, place: Path, epochs: int) -> list[float]:
    job = Job("bench", spark=session, checkpointing_interval=0, checkpointing_dir=str(checkpoints))
    source = SparkSource("rate-micro-batch", schema=None, replayable=None, **SOURCE)
    rows = _CASE.query(job.source("source", source))
    job.query("query", rows, mode=_CASE.mode, sinks=[_CASE.sink(place)])
    handle = job.start()
    try:
        (query,) = session.streams.active
        return _begun(query, epochs)
    finally:
        handle.stop()


def _plain(session: SparkSession, checkpoints: Folder, place: Path, epochs: int) -> list[float]:
    """With the settings that tidegate gives its own query on this storage."""
    with _set(session, {**query_conf(read_settings({}, {})), **storage_conf(session, checkpoints)}):
        rows = _CASE.query(session.readStream.format("rate-micro-batch").options(**SOURCE).load())
        query = (
            rows.writeStream.foreachBatch(_CASE.baseline(place))
            .outputMode(_CASE.mode)
            .option("checkpointLocation", checkpoints.for_spark())
            .trigger(processingTime="0 seconds")
            .start()
        )
    try:
        return _begun(query, epochs)
    finally:
        query.stop()


@contextmanager
def _set(session: SparkSession, settings: Mapping[str, str]) -> Generator[None]:
    for key, value in settings.items():
        session.conf.set(key, value)
    try:
        yield
    finally:
        for key in settings:
            session.conf.unset(key)


def _begun(query: StreamingQuery, epochs: int) -> list[float]:
    """When each of the first `epochs` triggers and the one after them began, in seconds since 1970."""
    end = time.monotonic() + _BOUND_SECONDS + epochs * _SECONDS_AN_EPOCH
    begun: dict[int, float] = {}
    while len(begun) <= epochs:
        for progress in query.recentProgress:
            begun[progress.batchId] = datetime.fromisoformat(progress.timestamp.replace("Z", "+00:00")).timestamp()
        if time.monotonic() > end or not query.isActive:
            raise TimeoutError(f"only {len(begun)} of {epochs} epochs in time: {query.exception()}")
        time.sleep(_LOOK_SECONDS)
    return [begun[epoch] for epoch in sorted(begun)][: epochs + 1]
