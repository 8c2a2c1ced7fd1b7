"""The settings by which a query of Spark reaches the storage of its job's folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tidegate.core.errors import Code, TidegateError
from tidegate.machine.s3a import HADOOP_VERSION
from tidegate.spark.local_files import local_files_conf
from tidegate.spark.query_conf import RENAMING_FILES
from tidegate.storages.hadoop import hadoop_settings
from tidegate.storages.schemes import Folder, Scheme

_PREFIX = "spark.hadoop."
_QUICK_CLOSE = {"dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "5"}
"""A client of HDFS looks again after this time whether the block of a file that it closes has been reported. Hadoop's
own 400 ms would be spent on each small file.
"""


def storage_conf(session: SparkSession, folder: Folder) -> dict[str, str]:
    """The settings of a query whose checkpoint is below this folder. What the user has set for the session stays.

    Raises JARS_UNAVAILABLE if the session does not know the storage.
    """
    if folder.is_local:
        return local_files_conf(session)
    _demand_connector(session, folder, _JARS_FOR_CHECKPOINTS)
    quick = _QUICK_CLOSE if folder.scheme in (Scheme.HDFS, Scheme.VIEWFS) else {}
    return {**RENAMING_FILES, **_where_unset(session, {**_settings_for(folder), **quick})}


def reading_options(session: SparkSession, folder: Folder) -> dict[str, str]:
    """The options by which a reader of Spark's reaches the files in this folder. What the user has set stays.

    Raises JARS_UNAVAILABLE if the session does not know the storage.
    """
    _demand_connector(session, folder, _JARS_FOR_A_SOURCE)
    return _where_unset(session, _settings_for(folder))


def _settings_for(folder: Folder) -> dict[str, str]:
    """Hadoop's settings for the storage of this folder."""
    return {key.removeprefix(_PREFIX): value for key, value in hadoop_settings(folder).items()}


def _where_unset(session: SparkSession, wanted: Mapping[str, str]) -> dict[str, str]:
    """Those of these settings that the user has not set."""
    classic: Any = session._jsparkSession  # pyright: ignore[reportPrivateUsage]
    given = classic.sessionState().newHadoopConf()
    return {key: value for key, value in wanted.items() if not _is_set(given, key)}


def _is_set(conf: Any, key: str) -> bool:
    """True if a user has set the key: Hadoop's own default files do not count."""
    sources = conf.getPropertySources(key)
    return sources is not None and any(not str(source).endswith("-default.xml") for source in sources)


def _demand_connector(session: SparkSession, folder: Folder, next_step: str) -> None:
    name = _CONNECTORS.get(folder.scheme)
    jvm: Any = session._jvm  # pyright: ignore[reportPrivateUsage]
    try:
        if name is not None:
            jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(name)
    except Py4JJavaError:
        raise TidegateError(
            Code.JARS_UNAVAILABLE,
            expected=f"a Spark session with {name}",
            found="a session without it",
            where=str(folder),
            next_step=next_step,
        ) from None


_PACKAGE = f"org.apache.hadoop:hadoop-aws:{HADOOP_VERSION}"
_JARS_FOR_CHECKPOINTS = (
    f"give the session spark.jars.packages = {_PACKAGE}, or leave the session to tidegate, which brings the jars"
)
_JARS_FOR_A_SOURCE = (
    f"give the session spark.jars.packages = {_PACKAGE}, or set PYSPARK_SUBMIT_ARGS='--packages {_PACKAGE}"
    " pyspark-shell'; tidegate brings the jars if checkpointing.dir is on S3, too"
)


_CONNECTORS: Mapping[Scheme, str] = {Scheme.S3: "org.apache.hadoop.fs.s3a.S3AFileSystem"}
"""The class by which Hadoop reaches a storage, where it is in no jar of pyspark."""
