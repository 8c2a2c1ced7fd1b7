"""One Spark session for both sides: the baseline gets every setting that tidegate gives its own queries."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from tidegate.spark.session import QUERY_SETTINGS, open_session


@contextmanager
def shared_session() -> Generator[SparkSession]:
    """tidegate's own session (adaptive execution off, as many shuffle partitions as cores), with the file manager,
    the state store and the retention of its queries set for all queries."""
    session = open_session("bench")
    session.sparkContext.setLogLevel("OFF")
    for key, value in QUERY_SETTINGS.items():
        session.conf.set(key, value)
    session.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        yield session
    finally:
        session.stop()
