"""Whether a bounded query runs the no-data epoch that is due at its end (checkpointing.after_tasks_finish)."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from pyspark.sql import SparkSession

_KEY = "spark.sql.streaming.noDataMicroBatches.enabled"


@contextmanager
def no_data_epochs(session: SparkSession, wanted: bool) -> Generator[None, None, None]:
    """While a query starts that is to run none of its own accord. Spark copies the session's settings then.

    What is due stays in Spark's log, and the next start puts it first. Where they are wanted the session's own setting
    stands: tidegate runs what Spark leaves.
    """
    if wanted:
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
