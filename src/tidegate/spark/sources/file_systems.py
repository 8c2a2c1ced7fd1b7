"""Facts about files that only the JVM knows: the file system of a path, the encoding of names, the file formats."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


def qualified(session: SparkSession, path: str) -> str:
    """The path with its scheme, as Hadoop completes it; unchanged if Hadoop does not know the scheme."""
    jvm: Any = session.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
    context: Any = session.sparkContext._jsc  # pyright: ignore[reportPrivateUsage]
    try:
        found = jvm.org.apache.hadoop.fs.Path(path)
        return str(found.getFileSystem(context.hadoopConfiguration()).makeQualified(found).toUri().toString())
    except (PySparkException, Py4JError):
        return path


def encoding_of_names(session: SparkSession) -> str:
    """Java's encoding of file names. It depends on the locale and decides which names Java can open."""
    jvm: Any = session.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
    return str(jvm.java.lang.System.getProperty("sun.jnu.encoding"))


def is_of_files(session: SparkSession, format: str) -> bool:
    """True if this format reads files. False for a format that Spark does not know: Spark refuses it later."""
    classic: Any = session._jsparkSession  # pyright: ignore[reportPrivateUsage]
    jvm: Any = session.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
    of_files, loader = "org.apache.spark.sql.execution.datasources", classic.getClass().getClassLoader()
    try:
        found = jvm.org.apache.spark.sql.execution.datasources.DataSource.lookupDataSource(
            format, classic.sessionState().conf()
        )
    except (PySparkException, Py4JError):
        return True
    kinds = (f"{of_files}.FileFormat", f"{of_files}.v2.FileDataSourceV2")
    return any(loader.loadClass(kind).isAssignableFrom(found) for kind in kinds)
