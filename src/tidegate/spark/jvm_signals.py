"""A JVM that this process has started ends when this process does, and not before it.

SIGTERM mostly comes to the whole process group (`timeout`, a container, a batch system): the JVM would end at once, and
the job with an error of its connection, instead of cleanly. Spark does the same for Ctrl-C.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from tidegate.spark.compiled import object_of


def outlive_sigterm(session: SparkSession) -> None:
    """From now on SIGTERM does nothing to the JVM: it ends with its standard input, which this process holds. The JVM
    of `spark-submit` started this process, and stays as it is."""
    gateway: Any = session.sparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    if getattr(gateway, "proc", None) is None:
        return
    classic: Any = session._jsparkSession  # pyright: ignore[reportPrivateUsage]
    object_of(gateway.jvm, classic.getClass().getClassLoader(), "TidegateSignals").outliveSigterm()
