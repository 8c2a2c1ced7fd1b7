"""The session of a program that a test starts as a process: small, soon there, and silent."""

from __future__ import annotations

from pyspark.sql import SparkSession


def small_session() -> SparkSession:
    """Two cores, two partitions of state, times in UTC."""
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    return session
