"""The columns of its streams that a query uses. A source need not build the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession

from tidegate.spark.plan_tree import Node, tree_of

_HANDS_ON = frozenset({"Filter", "EventTimeWatermark"})
"""Operators whose output is all columns of their input."""
_CHOOSES = frozenset({"Project", "Aggregate"})
"""Operators whose output has nothing of their input but what their expressions name."""


def columns_read(session: SparkSession, rows: DataFrame) -> tuple[frozenset[str], ...]:
    """The names of the used columns of each leaf of a plan, in the order of the leaves.

    Spark's own rule moves the choice of columns down to the leaves. Where another operator stands above a leaf than
    those that are understood here, all columns of the leaf count as used.
    """
    frame = cast("Any", rows._jdf)  # pyright: ignore[reportPrivateUsage]
    jvm: Any = session.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
    catalyst = jvm.org.apache.spark.sql.catalyst
    plan = catalyst.analysis.EliminateSubqueryAliases.apply(frame.queryExecution().analyzed())
    pruned = catalyst.optimizer.ColumnPruning.apply(plan)
    return tuple(_used(path) for path in _paths(tree_of(pruned)))


def _paths(plan: Node) -> Iterator[tuple[Node, ...]]:
    """From the root to each leaf."""
    waiting: list[tuple[Node, ...]] = [(plan,)]
    while waiting:
        path = waiting.pop()
        if path[-1].children:
            waiting.extend((*path, child) for child in reversed(path[-1].children))
        else:
            yield path


def _used(path: Sequence[Node]) -> frozenset[str]:
    *above, leaf = path
    columns = {each.id: str(each.fields["name"]) for each in leaf.expressions("output")}
    named: set[int] = set()
    for node in reversed(above):
        named |= {each.id for each in node.within() if each.name == "AttributeReference"}
        if node.name in _CHOOSES:
            return frozenset(name for number, name in columns.items() if number in named)
        if node.name not in _HANDS_ON:
            break
    return frozenset(columns.values())
