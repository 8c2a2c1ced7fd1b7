"""The job that is struck: numbered records from a topic, each epoch into two sinks of which one at least is Kafka's.

`rows`: no state. Every record, in a topic and in a table of SQLite.
`sums`: state. Per key the count of its records, in two topics, whenever it has changed; and a random value that the
state took some records ago, so that a count which the state did not go on with is seen.

Python draws a mark each time a row is computed: rows of two evaluations of one epoch never agree.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.campaign import program
from tests.campaign.places import JOB, ROWS, SUMS, Places
from tests.campaign_kafka.checker import WINDOW
from tests.campaign_kafka.scene import PARTITIONS, TRANSACTION_SECONDS, Scene
from tidegate import Job, KafkaSink, KafkaSource, SQLiteSink

_SCHEMA = "number long, key string, seq long"
_MARKS_BELOW = 2**53
_ROWS_AT_MOST = 20_000


def open_session(places: Places) -> SparkSession:
    """The session of the crash campaign, with as many tasks as there are partitions."""
    daemon = "tests.campaign_kafka.worker_daemon"
    return program.open_session(places, shuffle_partitions=PARTITIONS, worker_daemon=daemon)


def build_job(session: SparkSession, places: Places, checkpoints: str) -> Job:
    """The job with its checkpoints in `checkpoints`."""
    scene = Scene.load(places)
    places.database.parent.mkdir(exist_ok=True)
    job = Job(JOB, spark=session, checkpointing_dir=checkpoints, checkpointing_interval=0)
    job.query(
        ROWS,
        _marked(_records(job, "rows-in", scene), "number"),
        sinks=[_topic("rows-topic", scene, scene.rows), SQLiteSink("rows-table", str(places.database), table=ROWS)],
    )
    drawn = _records(job, "sums-in", scene).withColumn("drawn", _udf(_draw, "long")(F.col("number")))
    sums = drawn.groupBy("key").agg(
        F.count("*").alias("seen"),
        F.max("number").alias("newest"),
        F.expr(f"max_by(drawn, number) FILTER (WHERE seq % {WINDOW} = 0)").alias("kept"),
    )
    job.query(
        SUMS,
        _marked(sums, "newest"),
        mode="update",
        sinks=[_topic("sums-topic", scene, scene.sums), _topic("sums-mirror", scene, scene.mirror)],
    )
    return job


def _records(job: Job, uid: str, scene: Scene) -> DataFrame:
    source = KafkaSource(scene.servers, topics=[scene.input], max_rows=_ROWS_AT_MOST)
    value = F.from_json(F.col("value").cast("string"), _SCHEMA)
    return job.source(uid, source).select(value.alias("record")).select("record.*")


def _marked(rows: DataFrame, column: str) -> DataFrame:
    """The rows with the number of the epoch that computes them, and a new mark each."""
    epoch, mark = _udf(_epoch, "long"), _udf(_draw, "long")
    return rows.withColumn("epoch", epoch(F.col(column))).withColumn("mark", mark(F.col(column)))


def _udf(function: Any, kind: str) -> Any:
    udf: Any = F.pandas_udf
    return udf(function, kind).asNondeterministic()


def _draw(numbers: pd.Series) -> pd.Series:
    return pd.Series(np.random.default_rng().integers(1, _MARKS_BELOW, len(numbers)))


def _epoch(numbers: pd.Series) -> pd.Series:
    context = TaskContext.get()
    epoch = None if context is None else context.getLocalProperty("streaming.sql.batchId")
    return pd.Series(np.full(len(numbers), -1 if epoch is None else int(epoch)))


def _topic(uid: str, scene: Scene, topic: str) -> KafkaSink:
    return KafkaSink(uid, scene.servers, topic=topic, key="key", transaction_timeout=TRANSACTION_SECONDS)
