"""The session of a program that a test starts as a process: small, soon there, and silent."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tidegate.spark.worker_daemon import MODULE

SMALL = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.daemon.module": MODULE,
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""Two cores, times in UTC, Python workers that import once what each of them needs."""


def small_session(**beside: str) -> SparkSession:
    """`beside`: settings beside `SMALL`, with `_` for the dots of a name."""
    wanted = {**SMALL, **{name.replace("_", "."): value for name, value in beside.items()}}
    builder = SparkSession.Builder()
    for name, value in wanted.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session
