"""The job that is struck: one file source that two queries read, one of them slow.

`rows`: no state. Every row with the file it came from and a random value, in SQLite and in files.
`sums`: state, and slow. Per file and its content how many rows came, and the sum of their values, in SQLite.
"""

from __future__ import annotations

import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.campaign import program
from tests.campaign.places import JOB, ROWS, SUMS, Places
from tests.campaign_files import own_points, planted
from tests.campaign_files.scene import ROWS_PER_FILE, SETTLE_SECONDS, Scene, archive
from tidegate import FileSink, FileSource, Job, SQLiteSink

_FILE = r"/input(?:-\d+)?/(.*)$"
_SLOW_SECONDS = 0.005
_FILES_AN_EPOCH = 2


def open_session(places: Places) -> SparkSession:
    """The session of the crash campaign; its file sources pass places of their own."""
    own_points.install(places)
    return program.open_session(places)


def build_job(session: SparkSession, places: Places, checkpoints: str) -> Job:
    """The job with its checkpoints in `checkpoints`, as the scene wants it now."""
    scene = Scene.load(places)
    planted.plant(scene.planted)
    job = Job(JOB, spark=session, checkpointing_dir=checkpoints, checkpointing_interval=0)
    places.database.parent.mkdir(exist_ok=True)
    files = job.source("files", _source(places, scene))
    rows = files.select(
        F.regexp_extract("_metadata.file_path", _FILE, 1).alias("file"),
        "number",
        "value",
    )
    database = str(places.database)
    job.query(
        ROWS,
        rows.withColumn("lucky", F.rand()),
        sinks=[
            SQLiteSink("rows-table", database, table=ROWS),
            FileSink("rows-files", str(places.files(ROWS)), format="json"),
        ],
    )
    slow = F.udf(_slowly, "long").asNondeterministic()
    sums = rows.withColumn("value", slow("value")).groupBy(
        "file", F.expr(f"number div {ROWS_PER_FILE}").alias("serial")
    )
    job.query(
        SUMS,
        sums.agg(F.count("*").alias("seen"), F.sum("value").alias("total")),
        mode="update",
        sinks=[SQLiteSink("sums-table", database, table=SUMS)],
    )
    return job


def _slowly(value: int) -> int:
    time.sleep(_SLOW_SECONDS)
    return value


def _source(places: Places, scene: Scene) -> FileSource:
    after_done = f"archive:{archive(places)}" if scene.after_done == "archive" else scene.after_done
    return FileSource(
        str(scene.folder(places)),
        format="json",
        schema="number long, value long",
        recursive=True,
        max_files=_FILES_AN_EPOCH,
        settle=SETTLE_SECONDS,
        after_done=after_done,
        lost="skip" if scene.lost == "skip" else "refuse",
        changed="reread" if scene.changed == "reread" else "ignore",
    )
