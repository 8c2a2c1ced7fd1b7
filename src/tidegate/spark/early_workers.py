"""Starts Spark's daemon of Python workers before the first epoch: the start of a job leaves a core idle.

Spark itself starts the daemon with the first Python task, which is in the first epoch.
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
"""The applications with a started daemon, by Spark's id: a session serves many jobs."""


def start_workers(session: SparkSession) -> None:
    """Begin to start the daemon and one worker, if all tasks run on this machine. Nothing waits for it. Other workers
    are forked quickly later; the cores stay free for the epoch.
    """
    application = session.sparkContext.applicationId
    if application not in _begun:
        _begun.add(application)
        threading.Thread(target=_start, args=(session,), name="tidegate-early-workers", daemon=True).start()


def _start(session: SparkSession) -> None:
    try:
        session.sparkContext.setJobDescription("a Python worker for the first epoch")
        session.range(0, 1, 1, 1).mapInArrow(as_it_is, _SCHEMA).write.format("noop").mode("overwrite").save()
    except (
        AttributeError,
        Py4JError,
        PySparkException,
        OSError,
    ) as error:  # the session ends: the job has ended before its first epoch
        _LOG.debug("Python workers were not started early: %s", error)


def as_it_is(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows unchanged, through a Python worker."""
    yield from batches
