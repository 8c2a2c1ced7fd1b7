"""The rows of state that a Spark checkpoint holds, counted by Spark's own reader from the files alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidegate.checkpoints.spark_layout import STATE
from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import SavedQuery, StatefulOperator
from tidegate.core.state_tables import StateTable
from tidegate.spark.session import query_settings
from tidegate.spark.supervised import start_moves

_WHOLE = frozenset(
    {
        "stateStoreSave",
        "sessionWindowStateStoreSaveExec",
        "dedupe",
        "dedupeWithinWatermark",
        "flatMapGroupsWithState",
        "applyInPandasWithState",
    }
)
"""Operators, by Spark's short names, whose state Spark reads as one table."""

_JOIN = "symmetricHashJoin"


def count_state(session: SparkSession, checkpoint: Path, saved: SavedQuery, conf: Mapping[str, str]) -> dict[str, int]:
    """The rows of state behind the saved epoch, by operator; by side of a join. Custom state, and operators that
    Spark has no reader for, are not among them. Raises RESTORE_STATE where the state cannot be read."""
    counted: dict[str, int] = {}
    with query_settings(session, conf):
        for operator in saved.operators:
            for part in _parts(operator, checkpoint):
                name = _named(operator, part)
                counted[name] = _count(session, checkpoint, saved.done.epoch, operator, part)
                start_moves(f"{checkpoint}, {name}, counted")
    return counted


def count_tables(session: SparkSession, checkpoint: Path, saved: SavedQuery, conf: Mapping[str, str]) -> dict[str, int]:
    """The same by store, as a canonical savepoint has them. Raises RESTORE_STATE where the state cannot be read."""
    counted: dict[str, int] = {}
    with query_settings(session, conf):
        for operator in saved.operators:
            for store in operator.stores:
                table = StateTable(saved.done.query, operator.number, operator.name, store)
                part = {"storeName": store}
                counted[str(table)] = _count(session, checkpoint, saved.done.epoch, operator, part)
                start_moves(f"{checkpoint}, {table}, counted")
    return counted


def _count(
    session: SparkSession, checkpoint: Path, epoch: int, operator: StatefulOperator, part: Mapping[str, str]
) -> int:
    options = {"batchId": str(epoch), "operatorId": str(operator.number), **part}
    try:
        return session.read.format("statestore").options(**options).load(str(checkpoint)).count()
    except (PySparkException, Py4JError) as error:
        raise TidegateError(
            Code.RESTORE_STATE,
            expected=f"state of {_named(operator, part)} behind epoch {epoch} that Spark can read",
            found=str(error).split("\n")[0][:500],
            where=str(checkpoint),
            next_step="see `tidegate savepoint verify PATH`, and whether this Spark is older than the savepoint's; "
            "nothing of the job was changed",
        ) from None


def _named(operator: StatefulOperator, part: Mapping[str, str]) -> str:
    return " ".join([f"operator {operator.number} ({operator.name})", *part.values()])


def _parts(operator: StatefulOperator, checkpoint: Path) -> Iterator[Mapping[str, str]]:
    """The options by which Spark reads the parts of an operator's state. None for custom state, whose schemas Spark
    looks for by absolute paths: not in the savepoint, and not under the hidden name."""
    if (checkpoint / STATE / str(operator.number) / "_metadata" / "v2").is_dir():
        return
    if operator.name in _WHOLE:
        yield {}
    elif operator.name == _JOIN:
        yield from ({"joinSide": side} for side in ("left", "right"))
