"""The rows of state that a Spark checkpoint holds, counted by Spark's own reader from the files alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidegate.checkpoints.spark_layout import STATE, entry_numbers
from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import SavedQuery, StatefulOperator
from tidegate.spark.session import query_settings

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
_CUSTOM = "transformWithState"


def count_state(session: SparkSession, checkpoint: Path, saved: SavedQuery, conf: Mapping[str, str]) -> dict[str, int]:
    """The rows of state behind the saved epoch, by operator; by side of a join, by variable of custom state. Operators
    that Spark has no reader for are not among them. Raises RESTORE_STATE where the state cannot be read."""
    with query_settings(session, conf):
        return {
            _named(operator, part): _count(session, checkpoint, saved.done.epoch, operator, part)
            for operator in saved.operators
            for part in _parts(operator, checkpoint)
        }


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
    """The options by which Spark reads the parts of an operator's state."""
    if operator.name in _WHOLE:
        yield {}
    elif operator.name == _JOIN:
        yield from ({"joinSide": side} for side in ("left", "right"))
    elif operator.name.startswith(_CUSTOM):
        yield from ({"stateVarName": name} for name in _variables(checkpoint / STATE / str(operator.number)))


def _variables(operator: Path) -> Iterator[str]:
    """The user's variables of custom state, by Spark's metadata of the operator. Its own begin with `$`: timers."""
    folder = operator / "_metadata" / "v2"
    newest = max(entry_numbers(path.name for path in folder.iterdir()) if folder.is_dir() else [], default=None)
    if newest is None:
        return
    metadata = msgspec.json.decode((folder / str(newest)).read_bytes().partition(b"\n")[2], type=dict[str, Any])
    properties = msgspec.json.decode(str(metadata.get("operatorPropertiesJson") or "{}"), type=dict[str, Any])
    for variable in cast("list[dict[str, Any]]", properties.get("stateVariables") or []):
        name = str(variable.get("stateName", "$"))
        if not name.startswith("$"):
            yield name
