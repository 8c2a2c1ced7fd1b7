"""What only the JVM knows of files: the file system of a path, the encoding of names, the formats for files."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


def qualified(session: SparkSession, path: str) -> str:
    """A path with its scheme, as Hadoop completes it; as it is where Hadoop does not know the scheme."""
    jvm: Any = session.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
    context: Any = session.sparkContext._jsc  # pyright: ignore[reportPrivateUsage]
    try:
        found = jvm.org.apache.hadoop.fs.Path(path)
        return str(found.getFileSystem(context.hadoopConfiguration()).makeQualified(found).toUri().toString())
    except (PySparkException, Py4JError):
        return path


def encoding_of_names(session: SparkSession) -> str:
    """By its locale, Java opens a file whose name is not ASCII, or finds nothing."""
    jvm: Any = session.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
    return str(jvm.java.lang.System.getProperty("sun.jnu.encoding"))


def is_of_files(session: SparkSession, format: str) -> bool:
    """Whether Spark reads files by this format. One that it does not know is for Spark to refuse."""
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
