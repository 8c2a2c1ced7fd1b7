"""State as tables of Spark: each row of a store has a key, a value, and the number of its partition. The value of a
state variable may have several columns: for a list or a map Spark returns a row for each element.

They are read in a session of their own on the same context. Spark's reader takes the form of the files from the session
that is active at its creation. The settings of the user's session stay unchanged.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tidegate.core.errors import Code, TidegateError
from tidegate.core.json_formats import Unreadable, parsed
from tidegate.core.records import SavedQuery
from tidegate.savepoints.state_change import MOVABLE, is_custom
from tidegate.savepoints.state_tables import StateTable
from tidegate.settings.kinds import Backend
from tidegate.spark.query_conf import FILE_MANAGER_KEY, FORMAT_KEY, STORES


def read_native(
    session: SparkSession, checkpoint: str, saved: SavedQuery, table: StateTable, conf: Mapping[str, str]
) -> DataFrame:
    """The rows (key, value, partition_id) of a table after the saved epoch, from Spark's own files. `checkpoint`: their
    URI, plain, and for custom state the place of its schemas' paths. `conf`: what Spark needs to reach it.

    Raises STATE_TABLE if Spark has no reader for it, or cannot read it.
    """
    if table.kind not in MOVABLE or saved.backend not in _FORMS:
        raise _unreadable("state that Spark reads as a table", f"{table}, in {saved.backend}", checkpoint)
    options = {"batchId": saved.done.epoch, "operatorId": table.operator, **_part(table)}
    own = session_with(session, {**conf, FORMAT_KEY: _FORMS[saved.backend], FILE_MANAGER_KEY: _QUICK})
    try:
        with _active(own):
            return own.read.format("statestore").options(**options).load(checkpoint)
    except (PySparkException, Py4JError) as error:
        raise _unreadable(f"{table} as Spark has written it", first_line(error), checkpoint) from None


def read_canonical(session: SparkSession, folder: Path) -> DataFrame:
    """The rows (key, value, partition_id) of a table of a canonical savepoint, from its folder. Spark itself would look
    for the schema in a task, which may run on another machine.
    """
    from tidegate.savepoints.canonical import spark_schema  # imports that no other start needs

    try:
        schema = StructType.fromJson(parsed(spark_schema(folder), dict[str, Any]))
        return session.read.schema(schema).parquet(f"file:{folder}")
    except (PySparkException, Py4JError, Unreadable, KeyError, TypeError, ValueError, OSError) as error:
        raise _unreadable("Parquet as a canonical savepoint has it", first_line(error), str(folder)) from None


def session_with(session: SparkSession, conf: Mapping[str, str]) -> SparkSession:
    """Another session on the same context, with these settings."""
    own = session.newSession()
    for key, value in conf.items():
        own.conf.set(key, value)
    return own


def _part(table: StateTable) -> Mapping[str, str]:
    """The options that select the table in Spark."""
    if not is_custom(table.kind):
        return {"storeName": table.store}
    return {"readRegisteredTimers": "true"} if table.store.startswith(_TIMERS) else {"stateVarName": table.store}


_TIMERS = ("$procTimers", "$eventTimers")
"""Spark's name of the variable of the timers, by their clock."""


@contextmanager
def _active(session: SparkSession) -> Generator[None, None, None]:
    """Make this session the active one for this thread's calls, because the reader uses the active session."""
    jvm: Any = session.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
    classic: Any = session._jsparkSession  # pyright: ignore[reportPrivateUsage]
    sessions: Any = getattr(jvm, "org.apache.spark.sql.classic.SparkSession")
    before: Any = sessions.getActiveSession()
    sessions.setActiveSession(classic)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def first_line(error: Exception) -> str:
    """Spark's message, without the position in its call."""
    return str(getattr(error, "java_exception", None) or error).split("\n")[0][:500]


_FORMS = {backend.value: STORES[backend].checkpoint_format for backend in Backend}
"""By backend, the form of the files that the reader must know beforehand."""

_QUICK = STORES[Backend.ROCKSDB].file_manager
"""For hashmap's files too: nothing is written, so the names of new files do not matter."""


def _unreadable(expected: str, found: str, where: str) -> TidegateError:
    return TidegateError(
        Code.STATE_TABLE,
        expected=expected,
        found=found,
        where=where,
        next_step="see `tidegate savepoint verify PATH`; what cannot be read can still be restored",
    )
