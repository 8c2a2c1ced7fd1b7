"""Spark's settings for the queries of a job: what each of them has, and what its state backend makes of it."""

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
    """How Spark keeps the state of a query: the class, the format of its checkpoint, and who writes its files."""

    provider: str
    checkpoint_format: str
    file_manager: str

    @property
    def names_files(self) -> bool:
        """Whether state files have names of their own for each attempt, and `commits/N` tells which of them count."""
        return self.checkpoint_format == "2"


STORES: Mapping[Backend, StateStore] = {
    # The default manager starts a process for every look-up on a local disk. This one's rename is no
    # create-if-absent: nothing here relies on that, and state files of format 2 have names of their own.
    Backend.ROCKSDB: StateStore(
        f"{_STORES}.RocksDBStateStoreProvider", "2", f"{_FILE_MANAGERS}.FileSystemBasedCheckpointFileManager"
    ),
    # It knows no format but 1, where a run writes its state over that of a dead one under the same name. With the
    # quick manager the dead run's file would stay, under the output of the new run.
    Backend.HASHMAP: StateStore(
        f"{_STORES}.HDFSBackedStateStoreProvider", "1", f"{_FILE_MANAGERS}.FileContextBasedCheckpointFileManager"
    ),
}

NOT_COUNTED = {f"{_ROCKSDB}.trackTotalNumberOfRows": "false"}
"""For state that is carried or looked at, not for a query: a put does not look first whether its key is there, and what
is opened is not counted. A query counts the rows of such a snapshot when it opens it."""

_EPOCHS_KEPT_KEY = "spark.sql.streaming.minBatchesToRetain"
_BATCHES_KEPT_AT_LEAST = 10


def query_conf(settings: Settings, partitions: int | None = None) -> dict[str, str]:
    """What is in force while a query of a job starts (Spark copies the session's settings then), and not after."""
    store = STORES[settings.state_backend]
    kept = settings.checkpointing_retained + settings.checkpointing_max_concurrent + 2
    conf = {
        PROVIDER_KEY: store.provider,
        FORMAT_KEY: store.checkpoint_format,
        FILE_MANAGER_KEY: store.file_manager,
        f"{_ROCKSDB}.changelogCheckpointing.enabled": _flag(settings.state_changelog),
        # A snapshot uploads the files that are not there yet. After a compaction all of them are new.
        f"{_ROCKSDB}.compactOnCommit": _flag(not settings.state_incremental),
        _EPOCHS_KEPT_KEY: str(max(_BATCHES_KEPT_AT_LEAST, kept)),
        # When a lost shuffle block is computed again and has other rows (random values), what read the first ones
        # runs again, or Spark fails the epoch. Otherwise rows are lost and repeated without a word.
        "spark.sql.shuffle.orderIndependentChecksum.enabled": "true",
        "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "true",
    }
    return conf if partitions is None else {**conf, PARTITIONS_KEY: str(partitions)}


def epochs_kept(conf: Mapping[str, str]) -> int:
    """Of how many epochs Spark keeps the logs and the state, by what `query_conf` has given."""
    return int(conf[_EPOCHS_KEPT_KEY])


def partitions_of(settings: Settings, session: SparkSession, *, local: bool) -> int | None:
    """How many partitions keyed state gets in a first epoch; None leaves it to Spark."""
    if settings.parallelism is not None:
        return settings.parallelism
    if not local or PARTITIONS_KEY in explicit_conf(session):
        return None
    return session.sparkContext.defaultParallelism


def explicit_conf(session: SparkSession) -> dict[str, str]:
    """What somebody has set of the keys that tidegate sets, for the application or in this session."""
    classic = cast("Any", session._jsparkSession)  # pyright: ignore[reportPrivateUsage]
    runtime = classic.sessionState().conf().settings()
    application = dict(session.sparkContext.getConf().getAll())
    keys = (PROVIDER_KEY, FORMAT_KEY, PARTITIONS_KEY)
    return {
        **{key: application[key] for key in keys if key in application},
        **{key: runtime.get(key) for key in keys if runtime.containsKey(key)},
    }


def _flag(value: bool) -> str:
    return str(value).lower()
