"""Makes a JVM that this process has started end together with it, and not earlier.

SIGTERM often goes to the whole process group (`timeout`, a container, a batch system). The JVM would then end at once,
and the job with an error of its connection, instead of cleanly. Spark does the same for Ctrl-C.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from tidegate.spark.compiled import object_of


def outlive_sigterm(session: SparkSession) -> None:
    """From now on SIGTERM does not end the JVM: it ends when its standard input closes, which this process holds. The
    JVM of `spark-submit` started this process, and stays unchanged.
    """
    gateway: Any = session.sparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    if getattr(gateway, "proc", None) is None:
        return
    classic: Any = session._jsparkSession  # pyright: ignore[reportPrivateUsage]
    object_of(gateway.jvm, classic.getClass().getClassLoader(), "TidegateSignals").outliveSigterm()
