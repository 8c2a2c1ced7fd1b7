"""The SparkSession of a job: built well or taken from the user, and the JVM's half of the local lease."""

from __future__ import annotations

import os
import re
import signal
import sys
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

from py4j.protocol import Py4JError
from pyspark import SparkConf
from pyspark.sql import SparkSession

from tidegate.checkpoints.locks import JVM_LOCK
from tidegate.core.errors import Code, TidegateError
from tidegate.jobs.java import find_java

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER_KEY = "spark.sql.streaming.stateStore.providerClass"
FORMAT_KEY = "spark.sql.streaming.stateStore.checkpointFormatVersion"
_FILE_MANAGER_KEY = "spark.sql.streaming.checkpointFileManagerClass"
_FILE_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_BATCHES_KEPT = 10

QUERY_SETTINGS = {
    PROVIDER_KEY: ROCKSDB,
    FORMAT_KEY: "2",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.minBatchesToRetain": str(_BATCHES_KEPT),
    # When a lost shuffle block is computed again and has other rows (random values), what read the first ones runs
    # again, or Spark fails the epoch. Otherwise rows are lost and repeated without a word.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "true",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "true",
    # The default manager starts a process for every look-up on a local disk. This one's rename is no
    # create-if-absent: nothing here relies on that, and state files of format 2 have names of their own.
    _FILE_MANAGER_KEY: _FILE_MANAGER,
}
"""What is in force while a query of tidegate starts (Spark copies the session's settings then), and not after."""


_KEPT_FOR_THE_PAGE = {
    "spark.sql.ui.retainedExecutions": "100",
    "spark.ui.retainedJobs": "200",
    "spark.ui.retainedStages": "200",
    "spark.ui.retainedTasks": "5000",
}
"""What Spark's own page remembers, also where it is off. Its defaults are for hours of batches: with epochs twice a
second they fill the heap with some 40 KiB an epoch until a thousand are kept."""


def open_session(name: str) -> SparkSession:
    """The active session, or a new one with settings that suit short epochs."""
    if "SPARK_REMOTE" in os.environ or "SPARK_CONNECT_MODE_ENABLED" in os.environ:
        raise _connect_refused("the environment variable SPARK_REMOTE or SPARK_CONNECT_MODE_ENABLED")
    active = SparkSession.getActiveSession()
    if active is not None:
        return adopt_session(active)
    find_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf()
    defaults = {
        "spark.master": "local[*]",
        "spark.app.name": name,
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
        **_KEPT_FOR_THE_PAGE,
    }
    for key, value in {**defaults, **_worker_sockets()}.items():
        if not conf.contains(key):
            conf.set(key, value)
    session = SparkSession.builder.config(conf=conf).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _worker_sockets() -> dict[str, str]:
    """Unix sockets to the Python workers: measured, a task there and back takes 35 ms instead of 75 over TCP.

    A socket's path holds 107 bytes, and Spark's names take 43; where temporary files have a long path it stays TCP.
    """
    folder = tempfile.gettempdir()
    if len(os.fsencode(folder)) > 60:
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": folder}


def adopt_session(session: SparkSession) -> SparkSession:
    """A session that the user made. Refused: Spark Connect, another state store, asynchronous progress."""
    if type(session).__module__.startswith("pyspark.sql.connect"):
        raise _connect_refused(f"a session of {type(session).__module__}")
    explicit: dict[str, str] = {**dict(session.sparkContext.getConf().getAll()), **_runtime_settings(session)}
    for key in (PROVIDER_KEY, FORMAT_KEY):
        found = explicit.get(key, QUERY_SETTINGS[key])
        if found != QUERY_SETTINGS[key]:
            raise TidegateError(
                Code.STATE_FORMAT,
                expected=f"{key} = {QUERY_SETTINGS[key]}",
                found=found,
                where="the Spark session",
                next_step=f"remove {key} from the session's settings: tidegate sets it",
            )
    if is_local(session) and "PYSPARK_PYTHON" not in os.environ and "spark.pyspark.python" not in explicit:
        # Spark would take `python3` from the PATH, which need not have this program's packages.
        session.sparkContext.pythonExec = sys.executable
    return session


def is_local(session: SparkSession) -> bool:
    """Whether all tasks run on this machine."""
    return re.match(r"local(\[|$|-cluster)", session.sparkContext.master or "") is not None


@contextmanager
def query_settings(session: SparkSession) -> Generator[None, None, None]:
    """Spark's settings for queries of tidegate, put back afterwards: the session may be the user's."""
    with _settings_lock:
        before = {key: session.conf.get(key, None) for key in QUERY_SETTINGS}
        try:
            for key, value in QUERY_SETTINGS.items():
                session.conf.set(key, value)
            yield
        finally:
            for key, value in before.items():
                if value is None:
                    session.conf.unset(key)
                else:
                    session.conf.set(key, value)


_settings_lock = threading.Lock()
"""Two jobs may start queries in one session at once."""


@contextmanager
def interrupts_cancel_nothing() -> Generator[None, None, None]:
    """Ctrl-C only raises KeyboardInterrupt: pyspark's own handler cancels all jobs, the epoch under way with them."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not _is_of_pyspark(before):
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class JvmLock:
    """`locks/jvm.lock`, held by the driver's JVM: only when it is free can the old run write nothing any more."""

    def __init__(self, session: SparkSession, job_folder: Path) -> None:
        jvm: Any = session.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
        gateway: Any = session.sparkContext._gateway  # pyright: ignore[reportPrivateUsage]
        options = gateway.new_array(jvm.java.nio.file.OpenOption, 2)
        options[0] = jvm.java.nio.file.StandardOpenOption.CREATE
        options[1] = jvm.java.nio.file.StandardOpenOption.WRITE
        path = jvm.java.nio.file.Path.of(str(job_folder / JVM_LOCK), gateway.new_array(jvm.java.lang.String, 0))
        self._channel: Any = jvm.java.nio.channels.FileChannel.open(path, options)
        if self._channel.tryLock() is None:
            self._channel.close()
            raise TidegateError(
                Code.DRIVER_ALIVE,
                expected="no other JVM to drive this job",
                found="its lock is held",
                where=str(job_folder / JVM_LOCK),
                next_step="stop the other driver, or wait until it has ended",
            )

    def release(self) -> None:
        """Close the channel, and with it the lock; a JVM that is gone has taken both along."""
        with suppress(Py4JError, ConnectionError):
            self._channel.close()


def _is_of_pyspark(handler: object) -> bool:
    return str(getattr(handler, "__module__", "")).startswith("pyspark.")


def _runtime_settings(session: SparkSession) -> dict[str, str]:
    classic = cast("Any", session._jsparkSession)  # pyright: ignore[reportPrivateUsage]
    settings = classic.sessionState().conf().settings()
    return {key: settings.get(key) for key in (PROVIDER_KEY, FORMAT_KEY) if settings.containsKey(key)}


def _connect_refused(found: str) -> TidegateError:
    return TidegateError(
        Code.SPARK_CONNECT,
        expected="a classic session, whose driver runs in this process",
        found=found,
        where="Job(spark=...)",
        next_step="create the session without `remote`, or run the program with spark-submit",
    )
