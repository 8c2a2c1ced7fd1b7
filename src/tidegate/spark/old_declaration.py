"""Repeats the questions that the declaration of a job has asked of the world, such as the columns of its files.

A standby declares its job long before it takes over; an ordinary start declares it directly before. So a standby may
start the job only if the answers are still the same, or if new answers can replace the old ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any, TypeAlias, cast

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from tidegate.core.errors import TidegateError
from tidegate.settings.config import Settings
from tidegate.settings.found import load_settings
from tidegate.spark.sources.declaring import DeclaredSource

Again: TypeAlias = Callable[[], "str | None"]
"""Asks one question of a declaration again. Returns what differs now; None if nothing does. Raises Unanswerable."""


class Unanswerable(Exception):
    """A question of the declaration cannot be asked again. The text names what was asked."""


def settings_again(job: str, code: Mapping[str, object], then: Settings) -> str | None:
    """Compares the settings of a job with those of its declaration: a configuration file may have changed."""
    now = load_settings(code, job=job)
    before = {row.name: row.value for row in then.describe()}
    changed = [row.name for row in now.describe() if row.value != before[row.name]]
    return f"settings have changed: {', '.join(changed)}" if changed else None


def source_again(where: str, declare: Callable[[], DeclaredSource], then: DeclaredSource) -> str | None:
    """A source: its columns may come from files, or from *start*, which need not have existed then.

    A source that keeps its answers, as `FileSource` does, has the new ones afterwards.
    """
    now = declare().rows
    if now is then.rows:  # the program has made this stream itself
        return next(filter(None, (_stream_again(leaf, where) for leaf in _leaves(now))), None)
    before, after = then.rows.schema, now.schema
    if after != before:
        return f"{where}: its columns have changed from {before.simpleString()} to {after.simpleString()}"
    return None


def tables_again(rows: DataFrame, where: str) -> str | None:
    """The tables that a query reads beside its streams: their files are listed again."""
    for leaf in _leaves(rows):
        kind = _KINDS.get(_name(leaf))
        relation = leaf.relation() if kind is LeafKind.TABLE else None
        if kind is None or (relation is not None and _name(relation) not in _TABLES):
            found = _name(leaf if relation is None else relation)
            raise Unanswerable(f"{where} reads a table ({found}) whose answers cannot be asked again")
        if relation is not None and _name(relation) == _FILES:
            relation.location().refresh()
            if relation.location().partitionSchema().json() != relation.partitionSchema().json():
                return f"{where}: the partition columns of a table have changed"
    return None


def ask_again(questions: Iterator[Again]) -> str | None:
    """The first difference; None if there is none. A question that raises an error has another answer now.

    Raises Unanswerable.
    """
    try:
        return next(filter(None, (question() for question in questions)), None)
    except (TidegateError, PySparkException, Py4JJavaError) as error:
        return str(error)[:_SHOWN_CHARACTERS]


class LeafKind(Enum):
    """What a leaf of a query's plan reads."""

    OWN = "rows of the program"
    STREAM = "a stream that Spark describes by its options, and can describe again"
    CONNECTOR = "a stream of a connector, with a table of its own"
    TABLE = "a table beside the streams"


_KINDS: Mapping[str, LeafKind] = {
    "LocalRelation": LeafKind.OWN,
    "LogicalRDD": LeafKind.OWN,
    "ExternalRDD": LeafKind.OWN,
    "Range": LeafKind.OWN,
    "OneRowRelation": LeafKind.OWN,
    "StreamingRelation": LeafKind.STREAM,
    "StreamingRelationV2": LeafKind.CONNECTOR,
    "LogicalRelation": LeafKind.TABLE,
}
"""By the class of a leaf. All others, such as tables of a catalog, keep what they have found when they were made."""

_FILES = "HadoopFsRelation"
_TABLES = frozenset({_FILES, "JDBCRelation"})
"""The rows of a JDBC table are read by each epoch."""
_SAME_COLUMNS = frozenset({"kafka", "rate", "rate-micro-batch", "textsocket"})
"""Connectors whose columns are always the same."""
_SHOWN_CHARACTERS = 500


def _stream_again(leaf: Any, where: str) -> str | None:
    """A stream that the program has made itself: a copy of its description is asked for its columns."""
    match _KINDS.get(_name(leaf)):
        case LeafKind.STREAM:
            then = leaf.dataSource()
            now = then.copy(*(then.productElement(index) for index in range(then.productArity())))
            if now.sourceInfo().schema().json() != then.sourceInfo().schema().json():
                return f"{where}: its columns have changed"
        case LeafKind.CONNECTOR if str(leaf.sourceName()).lower() not in _SAME_COLUMNS:
            raise Unanswerable(f"{where} is a stream of {leaf.sourceName()} that the program has made itself")
        case _:
            pass
    return None


def _leaves(rows: DataFrame) -> Iterator[Any]:
    """The leaves of the plan and of its subqueries."""
    frame = cast("Any", rows._jdf)  # pyright: ignore[reportPrivateUsage]
    plan = frame.queryExecution().analyzed()
    below = plan.subqueriesAll()
    for each in (plan, *(below.apply(index) for index in range(below.size()))):
        leaves = each.collectLeaves()
        yield from (leaves.apply(index) for index in range(leaves.size()))


def _name(found: Any) -> str:
    return str(found.getClass().getSimpleName())
