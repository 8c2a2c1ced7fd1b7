"""A short job of a standby's own, in a temporary folder: when the standby takes over, its JVM has loaded and compiled
what the first epoch needs.

It has a session, a source and a sink of its own. The job that the standby waits for has no part in it.
"""

from __future__ import annotations

import logging
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidegate.core.errors import TidegateError
from tidegate.core.fingerprints import NOTHING_ALLOWED
from tidegate.settings.config import Settings
from tidegate.sinks.sqlite.sink import SQLiteSink
from tidegate.spark.declared import QueryArguments, declare_query
from tidegate.spark.early_workers import as_it_is
from tidegate.spark.job_plan import DeclaredJob
from tidegate.spark.operator_uids import uid
from tidegate.spark.short_job import ROWS, SCHEMA, counts_of
from tidegate.spark.sources.declaring import Through, declare_source
from tidegate.spark.sources.files import FileSource
from tidegate.spark.sources.streams import SourceRegistry
from tidegate.spark.starting import start
from tidegate.spark.supervised import unsupervised
from tidegate.spark.until import Until
from tidegate.storages.schemes import Folder

_LOG = logging.getLogger("tidegate")
_EPOCHS = 3
_LOOK_SECONDS = 0.1


def rehearse(session: SparkSession, settings: Settings, is_enough: Callable[[], bool]) -> None:
    """Run the job to its end, or until `is_enough`. `settings`: those of the job that the standby waits for. An error
    does no harm.
    """
    context, classic = cast("Any", session.sparkContext), cast("Any", session)
    folder = Path(tempfile.mkdtemp(prefix="standby-", dir=context._temp_dir))  # the JVM removes it if this process dies
    try:
        with unsupervised(), _signals_as_before(), _in_silence():
            _run(session.newSession(), settings, folder, is_enough)
    except (TidegateError, PySparkException, Py4JError, OSError) as error:
        _LOG.debug("a standby could not rehearse: %s", error)
    finally:
        context._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(classic._jsparkSession)
        shutil.rmtree(folder, ignore_errors=True)


def _run(session: SparkSession, settings: Settings, folder: Path, is_enough: Callable[[], bool]) -> None:
    rows = folder / "in"
    rows.mkdir()
    for number in range(_EPOCHS):
        (rows / f"{number}.json").write_text(ROWS)
    handle = start(_declared(session, settings, folder, rows), None, until=Until.CAUGHT_UP)
    while not handle.await_end(_LOOK_SECONDS):
        if is_enough():
            handle.cancel()


def _declared(session: SparkSession, of_job: Settings, folder: Path, rows: Path) -> DeclaredJob:
    """Like a program, but no setting of a file or an option reaches this job."""
    settings = Settings(
        checkpointing_dir=str(folder / "checkpoints"),
        checkpointing_interval=0,
        state_backend=of_job.state_backend,
        parallelism=of_job.parallelism,
    )
    level, where = settings.checkpointing_mode, "the rehearsal of a standby"
    files = FileSource(str(rows), format="json", schema=SCHEMA, settle=0, max_files=1)
    job_folder = Folder.of(folder)
    source = declare_source("lines", files, session, where, level, Through.SOURCE, job_folder, lambda _source: None)
    registry = SourceRegistry(session)
    registry.add("lines", source.rows, where)
    counts = uid("per-word", counts_of(source.rows.mapInArrow(as_it_is, SCHEMA)))
    table = SQLiteSink("table", folder / "out.db", table="counts", key="word")
    given = QueryArguments("counts", counts, "update", [table], None, None)
    query = declare_query(given, registry, where, level=level, taken={"lines"}, operators=set())
    return DeclaredJob(
        name="standby-rehearsal",
        session=session,
        settings=settings,
        queries=(query,),
        registry=registry,
        inputs={"lines": source},
        uids=frozenset({"lines", "counts", "table", *query.operators}),
        listeners=(),
        allowed=NOTHING_ALLOWED,
        asked=(),
    )


@contextmanager
def _in_silence() -> Generator[None, None, None]:
    """Nothing of this job is in the log of the one that the standby waits for, and no advice for it."""
    before = _LOG.level
    _LOG.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        _LOG.setLevel(before)


@contextmanager
def _signals_as_before() -> Generator[None, None, None]:
    """A job without a supervisor handles SIGTERM. The job of this process has one."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)
