"""Spark's daemon of Python workers, started before the first epoch needs it: a job's start leaves a core idle.

Spark starts the daemon with the first task that has Python in it, and that is in the first epoch.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

_LOG = logging.getLogger("tidegate")
_SCHEMA = "id long"

_begun: set[str] = set()
"""The applications whose daemon was started, by Spark's id: a session serves many jobs."""


def start_workers(session: SparkSession) -> None:
    """Begin to start the daemon and one worker, where all tasks run on this machine; nobody waits for that. The other
    workers are forked in no time, and the cores are left to the epoch."""
    application = session.sparkContext.applicationId
    if application not in _begun:
        _begun.add(application)
        threading.Thread(target=_start, args=(session,), name="tidegate-early-workers", daemon=True).start()


def _start(session: SparkSession) -> None:
    try:
        session.sparkContext.setJobDescription("a Python worker for the first epoch")
        session.range(0, 1, 1, 1).mapInArrow(_as_it_is, _SCHEMA).write.format("noop").mode("overwrite").save()
    except (
        AttributeError,
        Py4JError,
        PySparkException,
        OSError,
    ) as error:  # the session ends: the job has ended before its first epoch
        _LOG.debug("Python workers were not started early: %s", error)


def _as_it_is(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
