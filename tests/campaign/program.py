"""The job that is struck: values that no second run would give again, in every sink and in the state.

`rows`: no state. Every input row with a random value.
`sums`: state. Per word: how many rows came, the sum of their values, the sum of their random values (`chain`), the
random value that came last, and one more that is drawn after the aggregation. Each file has a word at most once, so
`chain` grows by `last` from one published row of a word to the next: unless one of them is not what the state knows.
"""

from __future__ import annotations

import os
import random
from typing import Any, Literal

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.campaign.places import DELIVERY, JOB, LEASE_SECONDS, MASTER, ROWS, SUMS, Places
from tests.campaign.stores.named import STORES
from tests.campaign.tray import TraySink
from tidegate import FileSink, FileSource, Job, SQLiteSink
from tidegate.machine.s3a import s3a_jars
from tidegate.sinks.base import TwoPhaseSink
from tidegate.storages.schemes import Scheme


def open_session(
    places: Places,
    *,
    shuffle_partitions: int = 2,
    worker_daemon: str = "tests.campaign.worker_daemon",
) -> SparkSession:
    """A session for short lives: one tier of compilation, no page, warm Python workers, task retries."""
    java = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djava.io.tmpdir={places.temporary}"
    session = (
        SparkSession.builder.master(os.environ.get(MASTER, "local[2,4]"))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", str(shuffle_partitions))
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.local.dir", str(places.temporary))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.python.daemon.module", worker_daemon)
        .config("spark.driver.extraJavaOptions", java)
        .config("spark.jars", _jars(places))
        .config("spark.cores.max", "1")  # of a cluster: the next driver, which is warm, has the other one
        .config("spark.executorEnv.TIDEGATE_TESTING", "1")
        .config("spark.executorEnv.TIDEGATE_STRIKES", str(places.strikes))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    return session


def build_job(session: SparkSession, places: Places, checkpoints: str) -> Job:
    """The job with its checkpoints in `checkpoints`."""
    level = os.environ.get(DELIVERY)
    settings: dict[str, Any] = {} if level is None else {"checkpointing_mode": level}
    if not places.job.is_local:
        settings["lease_timeout"] = f"{LEASE_SECONDS}s"
    job = Job(JOB, spark=session, checkpointing_dir=checkpoints, checkpointing_interval=0, **settings)
    lucky = F.udf(random.random, "double").asNondeterministic()
    rows = job.source("rows-in", _source(places))
    job.query(
        ROWS,
        rows.withColumn("lucky", F.rand()),
        sinks=_sinks(places, ROWS, "parquet"),
    )
    more = job.source("sums-in", _source(places)).withColumn("drawn", (F.rand() * 2**40).cast("long"))
    sums = (
        more.where("word IS NOT NULL")
        .groupBy("word")
        .agg(
            F.count("*").alias("seen"),
            F.sum("value").alias("total"),
            F.sum("drawn").alias("chain"),
            F.max_by("drawn", "number").alias("last"),
        )
    )
    job.query(
        SUMS,
        sums.withColumn("lucky", lucky()),
        mode="update",
        sinks=_sinks(places, SUMS, "json"),
    )
    return job


def _sinks(places: Places, query: str, kind: Literal["parquet", "json"]) -> list[TwoPhaseSink]:
    files = FileSink(f"{query}-files", str(places.files(query)), format=kind)
    if places.on_cluster:
        return [files, FileSink(f"{query}-more", str(places.more_files(query)), format=kind)]
    if places.store is not None:
        return [*STORES[places.store].sinks(query), files]
    places.database.parent.mkdir(exist_ok=True)
    table = SQLiteSink(f"{query}-table", str(places.database), table=query)
    return [table, files, TraySink(f"{query}-tray", places.tray(query))]


def _jars(places: Places) -> str:
    """Those that pyspark does not have, for the storage of the checkpoints."""
    return ",".join(map(str, s3a_jars({}, print))) if places.job.scheme is Scheme.S3 else ""


def _source(places: Places) -> FileSource:
    schema = "number long, word string, value long"
    return FileSource(str(places.input_folder), format="json", schema=schema, maxFilesPerTrigger=1)
