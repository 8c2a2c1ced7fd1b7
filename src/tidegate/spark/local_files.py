"""Files of Spark on the local disk, without processes.

Hadoop sets the rights of a new file by its native library. PySpark has none, so Hadoop starts `chmod`: 3 to 5 ms for
each file and again for its checksum, 18 ms of an epoch without state. Its newer interface, which the state store
hashmap needs, also starts `readlink` for each look at a file: 50 processes in an epoch of two partitions.
`java/TidegateLocalFiles.java` calls Java's own functions. Files, names, checksums and rights stay the same.
"""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tidegate.spark.compiled import define_beside
from tidegate.spark.session import master_of

_FILES = "fs.file.impl"
_CONTEXT = "fs.AbstractFileSystem.file.impl"
_USUAL_CONTEXT = "org.apache.hadoop.fs.local.LocalFs"
_PACKAGE = "org.apache.hadoop.fs"
_CLASS = "TidegateLocalFiles"
_INNER = ("Raw", "RawContext", "Context")


def local_files_conf(session: SparkSession) -> dict[str, str]:
    """The settings of a query that writes its checkpoint this way. None if executors have JVMs of their own, which do
    not know the class, or if the application names a class for local files.
    """
    classic: Any = session._jsparkSession  # pyright: ignore[reportPrivateUsage]
    given = classic.sessionState().newHadoopConf()
    usual = given.get(_FILES) is None and given.get(_CONTEXT) == _USUAL_CONTEXT
    if not usual or not master_of(session).is_one_jvm:
        return {}
    loader = classic.getClass().getClassLoader()
    try:
        loader.loadClass(f"{_PACKAGE}.{_CLASS}")
    except Py4JJavaError:  # the first query of this JVM
        jvm: Any = session._jvm  # pyright: ignore[reportPrivateUsage]
        define_beside(jvm, loader, _CLASS, _INNER, loader.loadClass(f"{_PACKAGE}.LocalFileSystem"))
    return {
        _FILES: f"{_PACKAGE}.{_CLASS}",
        # Hadoop keeps one object for all local files of a JVM, of the class that its first user has asked for.
        f"{_FILES}.disable.cache": "true",
        _CONTEXT: f"{_PACKAGE}.{_CLASS}$Context",
    }
