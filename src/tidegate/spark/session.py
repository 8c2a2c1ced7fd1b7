"""The SparkSession of a job: the user's, or a new one with suitable settings.

Also takes the JVM's half of the local lease.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from tidegate.core.errors import Code, TidegateError
from tidegate.machine.java import require_java
from tidegate.machine.user import user_name
from tidegate.settings.config import Settings
from tidegate.settings.kinds import Backend
from tidegate.spark.callbacks import listen_to
from tidegate.spark.early_jvm import end_early, environment_of_a_jvm, launched_jvm
from tidegate.spark.early_workers import start_workers
from tidegate.spark.get_ahead import OF_THE_FIRST_CALL, importing
from tidegate.spark.jvm_output import log_options, make_room_for_log, quiet_start, spark_log
from tidegate.spark.jvm_signals import outlive_sigterm
from tidegate.spark.program_modules import let_tasks_import
from tidegate.spark.query_conf import FORMAT_KEY, PARTITIONS_KEY, PROVIDER_KEY, STORES, explicit_conf, partitions_of
from tidegate.spark.worker_daemon import IMPORTS, MODULE, OPTIONAL
from tidegate.storages.lease import HeldLease
from tidegate.storages.refusals import lock_held
from tidegate.storages.schemes import Folder
from tidegate.submit.executor_environment import executor_settings
from tidegate.submit.masters import Master

DAEMON_KEY = "spark.python.daemon.module"
_KEPT_FOR_THE_PAGE = {
    "spark.sql.ui.retainedExecutions": "100",
    "spark.ui.retainedJobs": "200",
    "spark.ui.retainedStages": "200",
    "spark.ui.retainedTasks": "5000",
}
"""Limits of the data for Spark's own page, which Spark also keeps if the page is off. Its defaults suit batches of
hours: with epochs twice a second they fill the heap with some 40 KiB for each epoch until a thousand are kept.
"""


def open_session(name: str, settings: Settings) -> SparkSession:
    """The active session, or a new one with settings for short epochs."""
    if "SPARK_REMOTE" in os.environ or "SPARK_CONNECT_MODE_ENABLED" in os.environ:
        raise _connect_refused("the environment variable SPARK_REMOTE or SPARK_CONNECT_MODE_ENABLED")
    active = SparkSession.getActiveSession()
    if active is not None:
        return adopt_session(active, settings.state_backend)
    require_java()
    user_name()
    folder = Folder.of(settings.checkpointing_dir) / name
    log = spark_log(folder, os.environ)
    options = log_options(log, os.environ)
    importing(OF_THE_FIRST_CALL).start()
    with environment_of_a_jvm(folder), quiet_start(os.environ, log if options else None, launched_jvm):
        builder = SparkSession.builder
        for key, value in _suited_to_short_epochs(name).items():
            builder = builder.config(key, value)
        session = _begun(builder)
    session.sparkContext.setLogLevel("ERROR")
    suit_executors(session)
    session.sparkContext.environment[IMPORTS] = ",".join(name for name in OPTIONAL if name in sys.modules)
    partitions = partitions_of(settings, session, local=is_local(session))
    if partitions is not None:
        session.conf.set(PARTITIONS_KEY, str(partitions))
    return _made_ready(session)


def _begun(builder: SparkSession.Builder) -> SparkSession:
    """The new session. Raises APPLICATION_ENDED if the cluster has stopped it by then."""
    try:
        return builder.getOrCreate()
    except Py4JJavaError as error:
        if _STOPPED not in str(error.java_exception):
            raise
        raise TidegateError(
            Code.APPLICATION_ENDED,
            expected="an application with executors",
            found="its SparkContext was stopped while the session began",
            where=f"spark.master = {SparkConf().get('spark.master', '')}",
        ) from error


_STOPPED = "Cannot call methods on a stopped SparkContext"
"""Only Spark itself can have stopped the context of a session that is about to begin."""


def _suited_to_short_epochs(name: str) -> dict[str, str]:
    """Settings of `spark-submit`, `PYSPARK_SUBMIT_ARGS` or `spark-defaults.conf` stay. Before the JVM runs, Python's
    side of Spark does not know them, and would override them.
    """
    SparkContext.getSystemProperty("spark.master")  # starts the JVM, or finds that of `spark-submit`
    said = SparkConf()
    wanted = {
        "spark.master": "local[*]",
        "spark.sql.adaptive.enabled": "false",
        **_KEPT_FOR_THE_PAGE,
    }
    master = Master.of(said.get("spark.master", wanted["spark.master"]))
    if master.is_this_machine:
        wanted.update({DAEMON_KEY: MODULE, **_worker_sockets()})
    else:
        wanted.update(executor_settings(os.environ, master))
        if "tidegate" not in said.get("spark.submit.pyFiles", ""):  # which only workers read, not their daemon
            wanted[DAEMON_KEY] = MODULE
    missing = {key: value for key, value in wanted.items() if not said.contains(key)}
    # A JVM of our own has these two already, as options of the shell.
    return {**missing, "spark.app.name": name, "spark.ui.showConsoleProgress": "false"}


def _worker_sockets() -> dict[str, str]:
    """Unix sockets to the Python workers: measured, a round trip of a task takes 35 ms instead of 75 over TCP.

    A socket's path holds 107 bytes, and Spark's names take 43. If the folder for temporary files has a long path, TCP
    stays.
    """
    folder = tempfile.gettempdir()
    if len(os.fsencode(folder)) > 60:
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": folder}


def adopt_session(session: SparkSession, backend: Backend) -> SparkSession:
    """Check a session that the user made. Refused: Spark Connect, another state store, asynchronous progress."""
    end_early()
    if type(session).__module__.startswith("pyspark.sql.connect"):
        raise _connect_refused(f"a session of {type(session).__module__}")
    store, explicit = STORES[backend], explicit_conf(session)
    for key, wanted in ((PROVIDER_KEY, store.provider), (FORMAT_KEY, store.checkpoint_format)):
        found = explicit.get(key, wanted)
        if found != wanted:
            raise TidegateError(
                Code.STATE_FORMAT,
                expected=f"{key} = {wanted}, for state.backend = {backend.value}",
                found=found,
                where="the Spark session",
                next_step=f"remove {key} from the session's settings: state.backend of tidegate sets it",
            )
    conf = session.sparkContext.getConf()
    if is_local(session) and "PYSPARK_PYTHON" not in os.environ and not conf.contains("spark.pyspark.python"):
        # Spark would take `python3` from the PATH, which need not have this program's packages.
        session.sparkContext.pythonExec = sys.executable
    if is_local(session):
        _suit_workers(session)
    return _made_ready(session)


def suit_executors(session: SparkSession) -> None:
    """Let tasks run the Python of PYSPARK_PYTHON, else of `spark.pyspark.python`, which only `spark-submit` reads, else
    the driver's.
    """
    if "PYSPARK_PYTHON" not in os.environ:
        chosen = session.sparkContext.getConf().get("spark.pyspark.python")
        session.sparkContext.pythonExec = chosen or sys.executable


def _suit_workers(session: SparkSession) -> None:
    """Give the Python workers of a session that runs already what those of a new one get, unless the user has chosen.

    Spark reads these settings when it starts workers.
    """
    context: Any = session.sparkContext._jsc  # pyright: ignore[reportPrivateUsage]
    read_by_workers = context.sc().conf()
    for key, value in {DAEMON_KEY: MODULE, **_worker_sockets()}.items():
        if not read_by_workers.contains(key):
            read_by_workers.set(key, value)


def _made_ready(session: SparkSession) -> SparkSession:
    listen_to(session)
    outlive_sigterm(session)
    if is_local(session):
        let_tasks_import(session)
        start_workers(session)
    return session


def is_local(session: SparkSession) -> bool:
    """True if all tasks run on this machine."""
    return master_of(session).is_this_machine


def is_in_container(session: SparkSession) -> bool:
    """True if a cluster runs this process, in a folder that it removes at the end."""
    return session.sparkContext.getConf().get("spark.submit.deployMode") == "cluster"


def master_of(session: SparkSession) -> Master:
    """The kind of master that the session runs with."""
    return Master.of(session.sparkContext.master or "")


def lives(session: SparkSession) -> bool:
    """True if the session's JVM lives, and its context has not been stopped."""
    try:
        context: Any = session.sparkContext._jsc  # pyright: ignore[reportPrivateUsage]
        return not context.sc().isStopped()
    except (Py4JError, OSError, AttributeError):  # AttributeError: a context that Python has stopped has none
        return False


@contextmanager
def query_settings(session: SparkSession, conf: Mapping[str, str]) -> Generator[None, None, None]:
    """Spark's settings for a query of tidegate. Restored afterwards: the session may be the user's."""
    with _settings_lock:
        before = {key: session.conf.get(key, None) for key in conf}
        try:
            for key, value in conf.items():
                session.conf.set(key, value)
            yield
        finally:
            for key, value in before.items():
                if value is None:
                    session.conf.unset(key)
                else:
                    session.conf.set(key, value)


_settings_lock = threading.Lock()
"""Two jobs may start queries in one session at the same time."""


def lock_engine(session: SparkSession, lease: HeldLease) -> Callable[[], None]:
    """Let the driver's JVM take the engine's lock of the lease, if it has one: while the lock is held, the old run may
    still write. Returns an object that releases it; a dead JVM has released it by itself.

    Raises DRIVER_ALIVE if another JVM holds it.
    """
    where = lease.engine_lock()
    if where is None:
        return lambda: None
    jvm: Any = session.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
    gateway: Any = session.sparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    options = gateway.new_array(jvm.java.nio.file.OpenOption, 2)
    options[0] = jvm.java.nio.file.StandardOpenOption.CREATE
    options[1] = jvm.java.nio.file.StandardOpenOption.WRITE
    path = jvm.java.nio.file.Path.of(where, gateway.new_array(jvm.java.lang.String, 0))
    channel: Any = jvm.java.nio.channels.FileChannel.open(path, options)
    make_room_for_log()
    if channel.tryLock() is None:
        channel.close()
        stop = f"end the other driver (`tidegate stop {lease.holder.job}`), or wait until it has ended"
        raise lock_held("no other JVM to drive this job", where, stop)

    def release() -> None:
        with suppress(Py4JError, ConnectionError):
            channel.close()

    return release


def _connect_refused(found: str) -> TidegateError:
    return TidegateError(
        Code.SPARK_CONNECT,
        expected="a classic session, whose driver runs in this process",
        found=found,
        where="Job(spark=...)",
    )
