"""Hadoop's side of the storages: by the scheme of a folder, the settings by which Spark's JVM and its executors reach a
storage as tidegate does; and the file system of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidegate.extras import Extra, require
from tidegate.storages.hdfs import configuration
from tidegate.storages.schemes import Folder, Scheme, Where


def hadoop_settings(where: Where) -> Mapping[str, str]:
    """Settings of a Spark session (`spark.hadoop.*`) for this folder's storage; {} where Hadoop needs none. No
    credentials are among them: Spark's JVM finds them by the same chains on each machine.

    Sends no request. What the user has set for the session is meant to stay.
    """
    folder = Folder.of(where)
    settings = _SETTINGS.get(folder.scheme)
    return {} if settings is None else settings()


def default_file_system() -> str:
    """The URI of the file system that a cluster uses by itself, `fs.defaultFS` in HADOOP_CONF_DIR; empty if none is
    named. Raises SETTING_VALUE for files that cannot be read."""
    return configuration.default_file_system()


def _s3() -> Mapping[str, str]:
    require(Extra.S3)
    from tidegate.storages.s3.connection import connection

    return connection().hadoop_settings()


_SETTINGS: Mapping[Scheme, Callable[[], Mapping[str, str]]] = {Scheme.S3: _s3}
"""Hadoop reads the settings of HDFS from HADOOP_CONF_DIR itself."""
