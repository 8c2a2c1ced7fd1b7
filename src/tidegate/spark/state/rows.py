"""The number of rows of state in a Spark checkpoint, counted by Spark's own reader from the files alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidegate.checkpoints.spark_layout import STATE
from tidegate.core.effects import Happening
from tidegate.core.records import SavedQuery, StatefulOperator
from tidegate.core.start_happenings import RestoreMoved
from tidegate.savepoints.state_tables import tables_of
from tidegate.spark.query_conf import NOT_COUNTED
from tidegate.spark.refusals import not_restored
from tidegate.spark.session import query_settings
from tidegate.spark.state.tables import first_line

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

TellHappening = Callable[[Happening], None]
"""Receives the progress of the count."""

Read = Callable[[Path], AbstractContextManager[str]]
"""Gives the URI under which tasks read the files of a folder of this machine (`TaskFiles.read`)."""

_JOIN = "symmetricHashJoin"


def count_state(
    session: SparkSession,
    checkpoint: Path,
    saved: SavedQuery,
    conf: Mapping[str, str],
    tell: TellHappening,
    read: Read,
) -> dict[str, int]:
    """The rows of state after the saved epoch, by operator; by side for a join without a record. Custom state, and
    operators without a reader in Spark, are left out. Raises RESTORE_STATE if the state cannot be read.
    """
    return _counted(session, checkpoint, saved, conf, tell, saved.operators, {}, read)


def expected_state(
    session: SparkSession,
    checkpoint: Path,
    saved: SavedQuery,
    conf: Mapping[str, str],
    tell: TellHappening,
    numbers: Mapping[int, int],
    read: Read,
) -> dict[str, int]:
    """The expected result of `count_state` for a restored copy of this checkpoint: the recorded rows of the saved
    epoch. Only missing records are counted. `numbers`: the numbers of operators in this checkpoint, if they differ from
    the current ones. Raises RESTORE_STATE if the state cannot be read.
    """
    recorded = {
        _named(operator, {}): saved.done.state_rows[str(operator.number)]
        for operator in saved.operators
        if _is_recorded(saved, operator) and list(_parts(_under(numbers, operator), checkpoint))
    }
    unknown = [operator for operator in saved.operators if not _is_recorded(saved, operator)]
    return {**recorded, **_counted(session, checkpoint, saved, conf, tell, unknown, numbers, read)}


def recorded_tables(saved: SavedQuery) -> dict[str, int]:
    """The expected result of `count_tables`, if the recorded rows are those of one table. A join has four tables."""
    return {
        str(table): rows
        for table in tables_of(saved)
        if table.kind in _WHOLE and (rows := saved.done.state_rows.get(str(table.operator)))
    }


def _is_recorded(saved: SavedQuery, operator: StatefulOperator) -> bool:
    """None means no record, and zero never causes a refusal: Spark reports zero also if it does not count."""
    return bool(saved.done.state_rows.get(str(operator.number)))


def _under(numbers: Mapping[int, int], operator: StatefulOperator) -> StatefulOperator:
    return msgspec.structs.replace(operator, number=numbers.get(operator.number, operator.number))


def _counted(
    session: SparkSession,
    checkpoint: Path,
    saved: SavedQuery,
    conf: Mapping[str, str],
    tell: TellHappening,
    operators: Sequence[StatefulOperator],
    numbers: Mapping[int, int],
    read: Read,
) -> dict[str, int]:
    wanted = [(each, part) for each in operators for part in _parts(_under(numbers, each), checkpoint)]
    if not wanted:
        return {}
    counted: dict[str, int] = {}
    with read(checkpoint) as readable, query_settings(session, {**conf, **NOT_COUNTED}):
        for operator, part in wanted:
            name = _named(operator, {} if _is_recorded(saved, operator) else part)
            rows = _count(session, readable, saved.done.epoch, _under(numbers, operator), part)
            counted[name] = counted.get(name, 0) + rows
            tell(RestoreMoved(f"{checkpoint}, {_named(operator, part)}, counted"))
    return counted


def count_tables(
    session: SparkSession,
    checkpoint: Path,
    saved: SavedQuery,
    conf: Mapping[str, str],
    tell: TellHappening,
    read: Read,
) -> dict[str, int]:
    """The same by store, from a canonical savepoint. Raises RESTORE_STATE if the state cannot be read."""
    counted: dict[str, int] = {}
    with read(checkpoint) as readable, query_settings(session, {**conf, **NOT_COUNTED}):
        operators = {operator.number: operator for operator in saved.operators}
        for table in tables_of(saved):
            part = {"storeName": table.store}
            operator = operators[table.operator]
            counted[str(table)] = _count(session, readable, saved.done.epoch, operator, part)
            tell(RestoreMoved(f"{checkpoint}, {table}, counted"))
    return counted


def _count(
    session: SparkSession, checkpoint: str, epoch: int, operator: StatefulOperator, part: Mapping[str, str]
) -> int:
    options = {"batchId": str(epoch), "operatorId": str(operator.number), **part}
    try:
        return session.read.format("statestore").options(**options).load(checkpoint).count()
    except (PySparkException, Py4JError) as error:
        raise not_restored(
            f"state of {_named(operator, part)} behind epoch {epoch} that Spark can read",
            first_line(error),
            checkpoint,
            "see `tidegate savepoint verify PATH`, and whether this Spark is older than the savepoint's",
        ) from None


def _named(operator: StatefulOperator, part: Mapping[str, str]) -> str:
    return " ".join([f"operator {operator.number} ({operator.name})", *part.values()])


def _parts(operator: StatefulOperator, checkpoint: Path) -> Iterator[Mapping[str, str]]:
    """The options with which Spark reads the parts of an operator's state. None for custom state: Spark looks for its
    schemas at absolute paths, which lead neither into the savepoint nor to the hidden name.
    """
    if (checkpoint / STATE / str(operator.number) / "_metadata" / "v2").is_dir():
        return
    if operator.name in _WHOLE:
        yield {}
    elif operator.name == _JOIN:
        yield from ({"joinSide": side} for side in ("left", "right"))
