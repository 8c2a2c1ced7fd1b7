"""Spark's settings for the queries of a job: the common ones, and those of its state backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from pyspark.sql import SparkSession

from tidegate.settings.config import Settings
from tidegate.settings.kinds import Backend

PROVIDER_KEY = "spark.sql.streaming.stateStore.providerClass"
FORMAT_KEY = "spark.sql.streaming.stateStore.checkpointFormatVersion"
PARTITIONS_KEY = "spark.sql.shuffle.partitions"
FILE_MANAGER_KEY = "spark.sql.streaming.checkpointFileManagerClass"

_STORES = "org.apache.spark.sql.execution.streaming.state"
_FILE_MANAGERS = "org.apache.spark.sql.execution.streaming.checkpointing"
_ROCKSDB = "spark.sql.streaming.stateStore.rocksdb"


@dataclass(frozen=True, slots=True)
class StateStore:
    """How Spark keeps the state of a query: the class, the format of its checkpoint, and the file manager that writes
    its files.
    """

    provider: str
    checkpoint_format: str
    file_manager: str

    @property
    def names_files(self) -> bool:
        """True if state files have unique names for each attempt, and `commits/N` names those that count."""
        return self.checkpoint_format == "2"


STORES: Mapping[Backend, StateStore] = {
    # The default manager looks a file up several times before it writes it. The rename of this one is not
    # create-if-absent. Nothing here relies on that, and state files of format 2 have unique names.
    Backend.ROCKSDB: StateStore(
        f"{_STORES}.RocksDBStateStoreProvider", "2", f"{_FILE_MANAGERS}.FileSystemBasedCheckpointFileManager"
    ),
    # It supports only format 1: a run writes its state over that of a dead run under the same name. With the quick
    # manager the dead run's file would stay, under the output of the new run.
    Backend.HASHMAP: StateStore(
        f"{_STORES}.HDFSBackedStateStoreProvider", "1", f"{_FILE_MANAGERS}.FileContextBasedCheckpointFileManager"
    ),
}

RENAMING_FILES: Mapping[str, str] = {FILE_MANAGER_KEY: f"{_FILE_MANAGERS}.FileContextBasedCheckpointFileManager"}
"""Where the checkpoint is not on a local disk: the rename of this manager is atomic on HDFS, and never overwrites."""

NOT_COUNTED = {f"{_ROCKSDB}.trackTotalNumberOfRows": "false"}
"""For state that is copied or read, not for a query: a put does not first look for its key, and an opened store is not
counted. A query counts the rows of such a snapshot when it opens it.
"""

_EPOCHS_KEPT_KEY = "spark.sql.streaming.minBatchesToRetain"
_BATCHES_KEPT_AT_LEAST = 10


def query_conf(settings: Settings, partitions: int | None = None) -> dict[str, str]:
    """The settings while a query of a job starts (Spark copies the session's settings then); restored afterwards."""
    store = STORES[settings.state_backend]
    kept = settings.checkpointing_retained + settings.checkpointing_max_concurrent + 2
    conf = {
        PROVIDER_KEY: store.provider,
        FORMAT_KEY: store.checkpoint_format,
        FILE_MANAGER_KEY: store.file_manager,
        f"{_ROCKSDB}.changelogCheckpointing.enabled": _flag(settings.state_changelog),
        # A snapshot uploads only new files. After a compaction all of them are new.
        f"{_ROCKSDB}.compactOnCommit": _flag(not settings.state_incremental),
        _EPOCHS_KEPT_KEY: str(max(_BATCHES_KEPT_AT_LEAST, kept)),
        # If a lost shuffle block is computed again with other rows (random values), the tasks that read the first ones
        # run again, or Spark fails the epoch. Otherwise rows are lost and repeated without a message.
        "spark.sql.shuffle.orderIndependentChecksum.enabled": "true",
        "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "true",
    }
    return conf if partitions is None else {**conf, PARTITIONS_KEY: str(partitions)}


def epochs_kept(conf: Mapping[str, str]) -> int:
    """The number of epochs whose logs and state Spark keeps, from the result of `query_conf`."""
    return int(conf[_EPOCHS_KEPT_KEY])


def partitions_of(settings: Settings, session: SparkSession, *, local: bool) -> int | None:
    """The number of partitions of keyed state in a first epoch; None leaves it to Spark."""
    if settings.parallelism is not None:
        return settings.parallelism
    if not local or PARTITIONS_KEY in explicit_conf(session):
        return None
    return session.sparkContext.defaultParallelism


def explicit_conf(session: SparkSession) -> dict[str, str]:
    """The keys that tidegate sets and that the application or this session has set, too."""
    classic = cast("Any", session._jsparkSession)  # pyright: ignore[reportPrivateUsage]
    runtime = classic.sessionState().conf().settings()
    application = session.sparkContext.getConf()
    found = {
        key: runtime.get(key) if runtime.containsKey(key) else application.get(key)
        for key in (PROVIDER_KEY, FORMAT_KEY, PARTITIONS_KEY)
    }
    return {key: value for key, value in found.items() if value is not None}


def _flag(value: bool) -> str:
    return str(value).lower()
