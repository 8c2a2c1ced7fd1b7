"""One Spark session for both sides: the baseline gets every setting that tidegate gives its own queries."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from tidegate.settings.reading import read_settings
from tidegate.spark.query_conf import query_conf
from tidegate.spark.session import open_session


@contextmanager
def shared_session() -> Generator[SparkSession]:
    """tidegate's own session (adaptive execution off, as many shuffle partitions as cores), with the file manager,
    the state store and the retention of its queries set for all queries."""
    settings = read_settings({}, {})
    session = open_session("bench", settings)
    session.sparkContext.setLogLevel("OFF")
    for key, value in query_conf(settings).items():
        session.conf.set(key, value)
    session.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        yield session
    finally:
        session.stop()
