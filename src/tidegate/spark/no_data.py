"""Whether a bounded query runs the due no-data epoch at its end (checkpointing.after_tasks_finish)."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from enum import Enum

from pyspark.sql import SparkSession

_KEY = "spark.sql.streaming.noDataMicroBatches.enabled"


class DueEpoch(Enum):
    """The due no-data epoch of a query that has processed its input."""

    RUNS = "it runs, if the session's own setting allows it"
    LEFT = "it stays in Spark's log, and the next start runs it first"


@contextmanager
def no_data_epochs(session: SparkSession, due: DueEpoch) -> Generator[None, None, None]:
    """Used while a query starts that must not run one by itself. Spark copies the session's settings at the start.

    If it is to run, the session's own setting counts: tidegate runs the epoch that Spark leaves.
    """
    if due is DueEpoch.RUNS:
        yield
        return
    before = session.conf.get(_KEY, None)
    session.conf.set(_KEY, "false")
    try:
        yield
    finally:
        if before is None:
            session.conf.unset(_KEY)
        else:
            session.conf.set(_KEY, before)
