"""Checks if the stateful operators of a query can resume with the state of a savepoint, before anything is changed.

Spark itself compares them when it plans the first epoch of a run: the kinds of the operators, by their number in the
plan, and the schemas of their keys and values. Here Spark plans that epoch over a temporary folder with the
descriptions of that state and without state. Files that it writes while it plans go there, too.
"""

from __future__ import annotations

import logging
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias, cast

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidegate.checkpoints.job_layout import QUERIES
from tidegate.checkpoints.spark_layout import OFFSETS, STATE, offsets_entry
from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import SavedQuery, StatefulOperator
from tidegate.savepoints.folder import Savepoint
from tidegate.savepoints.hold import RunningQuery, newest_done
from tidegate.savepoints.operator_match import OperatorMatch
from tidegate.savepoints.operator_metadata import moved_name, moved_to, names_operator, names_schemas, renumbered
from tidegate.savepoints.query import operators_of, saved_query
from tidegate.spark.operator_uids import with_uids
from tidegate.spark.query_plan import QueryPlan
from tidegate.spark.session import query_settings
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder

_LOG = logging.getLogger("tidegate")

_DESCRIBES = re.compile(rf"{STATE}/(?:.+/)?(?:_metadata|_stateSchema)/.+")
_RUNTIME = "org.apache.spark.sql.execution.streaming.runtime"
_ADAPTIVE = "spark.sql.adaptive.enabled"
_NO_METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'
_GIVEN = 11
"""The number of arguments that Spark's plan of an epoch has always had. Later ones have defaults."""


_Description: TypeAlias = tuple[str, bytes, str]
"""One of Spark's descriptions of state: its name in a checkpoint, its content, its place for messages."""


def compare_operators(
    session: SparkSession, plan: QueryPlan, saved: SavedQuery, savepoint: Savepoint, match: OperatorMatch | None
) -> TidegateError | None:
    """The error if operators of the program do not fit the savepoint's state; None if all fit. Writes nothing durable.

    `match`: given if operators have other numbers than in the savepoint, or are new.
    """
    return _compared(session, plan, saved, _in_savepoint(savepoint, saved), match)


def compare_with_own_state(session: SparkSession, plan: QueryPlan) -> TidegateError | None:
    """The same for a start without a savepoint, over the state of the query's newest done epoch. Only reads."""
    spark = plan.folder / "spark"
    done = newest_done(RunningQuery(plan.query, plan.folder, 0))
    if done is None:
        return None
    return _compared(session, plan, saved_query(done, spark), _in_checkpoint(spark), None)


def _compared(
    session: SparkSession,
    plan: QueryPlan,
    saved: SavedQuery,
    descriptions: Iterable[_Description],
    match: OperatorMatch | None,
) -> TidegateError | None:
    with TemporaryDirectory(prefix="tidegate-plan-") as folder:
        checkpoint = Path(folder).resolve()
        try:
            _describe(descriptions, saved, checkpoint, match)
            if match is not None and match.new:
                describe_new(session, plan, saved.done.offsets, match.new, checkpoint)
            _plan_first_epoch(session, plan, saved, checkpoint / STATE)
        except PySparkException as error:
            return _different(plan, saved, str(error).strip().split("\n")[0][:500])
        except (Py4JError, ValueError, OSError, TidegateError) as error:
            # Spark compares them once more, in the first epoch.
            _LOG.warning("%s: its operators could not be compared with their state: %s", plan.query, error)
    return None


def operators_planned(session: SparkSession, plan: QueryPlan) -> tuple[StatefulOperator, ...]:
    """The stateful operators of a query as Spark plans them, with their uids from the program."""
    with TemporaryDirectory(prefix="tidegate-plan-") as folder:
        checkpoint = Path(folder).resolve()
        try:
            describe_planned(session, plan, plan.conf, checkpoint)
        except (PySparkException, Py4JError, ValueError, OSError) as error:
            raise TidegateError(
                Code.QUERY_REFUSED,
                expected="a query of which Spark plans an epoch",
                found=str(error).strip().split("\n")[0][:500],
                where=str(plan.query),
                next_step="`tidegate check APP` tells whether Spark can run the query at all; if so take"
                " tidegate.uid out of it; nothing"
                " was changed",
            ) from None
        return with_uids(plan.rows, operators_of(checkpoint, {}), str(plan.query))


def describe_new(
    session: SparkSession, plan: QueryPlan, offsets: bytes, new: Iterable[StatefulOperator], checkpoint: Path
) -> None:
    """Add Spark's descriptions of the state of new operators to a checkpoint. The settings come from the entry in the
    log from which Spark resumes.
    """
    metadata = offsets.decode().split("\n")[1]
    with TemporaryDirectory(prefix="tidegate-plan-") as folder:
        planned = Path(folder).resolve()
        describe_planned(session, plan, {**plan.conf, **_settings_of(session, metadata)}, planned)
        for operator in new:
            name = f"{STATE}/{operator.number}"
            shutil.copytree(planned / name, checkpoint / name, ignore=shutil.ignore_patterns(".*.crc"))


def describe_planned(session: SparkSession, plan: QueryPlan, conf: Mapping[str, str], checkpoint: Path) -> None:
    """Let Spark describe the state of each operator, as when it plans the very first epoch: its entry is then in the
    log, where custom state is looked up.
    """
    (checkpoint / OFFSETS).mkdir()
    (checkpoint / offsets_entry(0)).write_text(f"v1\n{_NO_METADATA}")
    with query_settings(session, {**conf, _ADAPTIVE: "false"}):
        _incremental(session, plan, 0, _NO_METADATA, checkpoint / STATE).executedPlan()


def _describe(
    descriptions: Iterable[_Description], saved: SavedQuery, checkpoint: Path, match: OperatorMatch | None
) -> None:
    (checkpoint / STATE).mkdir()
    (checkpoint / OFFSETS).mkdir()
    # As when Spark plans an epoch and looks for newer descriptions: its entry exists.
    for epoch in (saved.done.epoch, saved.done.epoch + 1):
        (checkpoint / offsets_entry(epoch)).write_bytes(saved.done.offsets)
    for before, data, where in descriptions:
        name = before if match is None else moved_name(before, match.places)
        if name is None or name.rpartition("/")[2].startswith("."):
            continue  # a checksum of Spark's own file system, which is not needed
        target = checkpoint / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if match is not None and names_operator(name):
            data = renumbered(data, match.places, where)
        target.write_bytes(moved_to(data, checkpoint, where) if names_schemas(name) else data)


def _in_checkpoint(spark: Folder) -> Iterator[_Description]:
    storage = open_storage(spark)
    for each in open_checkpoint_files(spark).list(STATE):
        if _DESCRIBES.fullmatch(each.name) and (data := storage.peek(each.name)) is not None:
            yield each.name, data, storage.where(each.name)


def _in_savepoint(savepoint: Savepoint, saved: SavedQuery) -> Iterator[_Description]:
    prefix = f"{QUERIES}/{saved.done.query}/spark/"
    for file in savepoint.record.files:
        name = file.name.removeprefix(prefix)
        if file.name.startswith(prefix) and _DESCRIBES.fullmatch(name):
            path = savepoint.folder / file.name
            yield name, path.read_bytes(), str(path)


def _plan_first_epoch(session: SparkSession, plan: QueryPlan, saved: SavedQuery, state: Path) -> None:
    metadata = saved.done.offsets.decode().split("\n")[1]
    with query_settings(session, {**plan.conf, **_settings_of(session, metadata), _ADAPTIVE: "false"}):
        _incremental(session, plan, saved.done.epoch + 1, metadata, state).executedPlan()


def _settings_of(session: SparkSession, metadata: str) -> dict[str, str]:
    """The settings with which Spark resumes a query after an entry of its log: those in the entry; for settings that an
    older Spark did not know, Spark's own default for old entries (`OffsetSeqMetadata.setSessionConf`).
    """
    jvm: Any = session.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
    logged = jvm.org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadata
    settings = jvm.org.apache.spark.sql.internal.SQLConf()
    logged.setSessionConf(logged.apply(metadata), settings)
    return dict(jvm.scala.jdk.javaapi.CollectionConverters.asJava(settings.getAllConfs()))


def _incremental(session: SparkSession, plan: QueryPlan, epoch: int, metadata: str, state: Path) -> Any:
    """Spark's `IncrementalExecution` of an epoch, as for the first one after a start."""
    jvm: Any = session.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
    classic: Any = session._jsparkSession  # pyright: ignore[reportPrivateUsage]
    streaming = jvm.org.apache.spark.sql.execution.streaming
    some_id = jvm.java.util.UUID.fromString(str(uuid.uuid4()))
    execution = streaming.runtime.IncrementalExecution
    loader = classic.getClass().getClassLoader()
    (constructor,) = loader.loadClass(f"{_RUNTIME}.IncrementalExecution").getDeclaredConstructors()
    later = range(_GIVEN + 1, constructor.getParameterCount() + 1)
    return execution(
        classic,
        cast("Any", plan.rows._jdf).queryExecution().analyzed(),  # pyright: ignore[reportPrivateUsage]
        getattr(jvm.org.apache.spark.sql.streaming.OutputMode, plan.mode.capitalize())(),
        f"file:{state}",  # a URI would encode a blank as %20, and Spark would use that as the path
        some_id,
        some_id,
        epoch,
        jvm.scala.Option.empty(),
        streaming.checkpointing.OffsetSeqMetadata.apply(metadata),
        streaming.runtime.WatermarkPropagator.noop(),
        True,  # the first epoch of this run
        *(getattr(execution, f"$lessinit$greater$default${number}")() for number in later),
    )


def _different(plan: QueryPlan, saved: SavedQuery, found: str) -> TidegateError:
    operators = ", ".join(f"{operator.number} ({operator.name})" for operator in saved.operators) or "none"
    return TidegateError(
        Code.RESTORE_OPERATORS,
        expected=f"stateful operators that the state fits: {operators}",
        found=found,
        where=str(plan.query),
        next_step="put the operators back as they were; or resume after the rows that were read, with empty state "
        "(--offsets-only)",
    )
