"""The session that a job of tidegate opens, and one for both sides of a comparison."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

from tidegate.settings.reading import read_settings
from tidegate.spark.query_conf import query_conf
from tidegate.spark.session import open_session


@contextmanager
def own_session(conf: Mapping[str, str] | None = None) -> Generator[SparkSession]:
    """As a job opens it: adaptive execution off, as many shuffle partitions as cores. `conf`: what is set besides."""
    session = open_session("bench", read_settings({}, {}))
    session.sparkContext.setLogLevel("OFF")
    for key, value in (conf or {}).items():
        session.conf.set(key, value)
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def shared_session() -> Generator[SparkSession]:
    """With the file manager, the state store and the retention of tidegate's queries set for all queries: the baseline
    gets every setting that tidegate gives its own."""
    with own_session({**query_conf(read_settings({}, {})), "spark.sql.session.timeZone": "UTC"}) as session:
        yield session
