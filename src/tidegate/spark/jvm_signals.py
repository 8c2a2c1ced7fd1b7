"""Makes a JVM that this process has started end together with it, and not earlier.

SIGTERM often goes to the whole process group (`timeout`, a container, a batch system). The JVM would then end at once,
and the job with an error of its connection, instead of cleanly. Spark does the same for Ctrl-C.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from tidegate.spark.compiled import object_of


def outlive_sigterm(session: SparkSession) -> None:
    """Make the JVM ignore SIGTERM. It ends when its standard input closes, which this process holds open.

    A JVM of `spark-submit` has started this process, and is not changed.
    """
    gateway: Any = session.sparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    if getattr(gateway, "proc", None) is None:
        return
    classic: Any = session._jsparkSession  # pyright: ignore[reportPrivateUsage]
    object_of(gateway.jvm, classic.getClass().getClassLoader(), "TidegateSignals").outliveSigterm()
