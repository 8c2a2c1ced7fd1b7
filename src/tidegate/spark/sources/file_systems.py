"""Facts about files that only the JVM knows: the file system of a path, the encoding of names, the file formats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
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


def closed_files(session: SparkSession, root: str) -> Callable[[str], bool]:
    """Whether no program writes a file below `root`, by its path with a scheme.

    HDFS shows a file that is being written, as empty or in whole blocks, and its size may not change for a long time.
    Only its NameNode tells. A mount table (viewfs) is resolved first. Any other file system says that a file is closed.
    """
    jvm: Any = session.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
    context: Any = session.sparkContext._jsc  # pyright: ignore[reportPrivateUsage]

    is_hdfs = root.startswith(("hdfs:", "viewfs:"))

    def is_closed(path: str) -> bool:
        try:
            conf = context.hadoopConfiguration()
            found = jvm.org.apache.hadoop.fs.Path(path)
            resolved = found.getFileSystem(conf).resolvePath(found)
            system = resolved.getFileSystem(conf)
            return str(system.getScheme()) != "hdfs" or bool(system.isFileClosed(resolved))
        except Py4JJavaError as error:
            is_gone = "java.io.FileNotFoundException" in str(error.java_exception)  # the looks at the file decide
            return is_gone or not is_hdfs
        except (PySparkException, Py4JError):
            return not is_hdfs  # its NameNode does not answer now: it is asked again

    return is_closed


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
