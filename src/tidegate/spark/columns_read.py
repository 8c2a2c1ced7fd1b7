"""The columns of its streams that a query uses. A source need not build the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession

from tidegate.sources.used_columns import UsedColumns
from tidegate.spark.plan_tree import Node, tree_of

_HANDS_ON = frozenset({"Filter", "EventTimeWatermark"})
"""Operators whose output is all columns of their input."""
_CHOOSES = frozenset({"Project", "Aggregate"})
"""Operators whose output has nothing of their input but what their expressions name."""


def columns_read(session: SparkSession, rows: DataFrame) -> tuple[UsedColumns, ...]:
    """The used columns of each leaf of a plan, in the order of the leaves.

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


def _used(path: Sequence[Node]) -> UsedColumns:
    *above, leaf = path
    columns = {each.id: each for each in leaf.expressions("output")}
    passed_on = set(columns)
    named: Counter[int] = Counter()
    taken: dict[int, list[str]] = {}
    for node in reversed(above):
        if (picked := _picked(node)) is not None:
            passed_on &= picked
            continue
        for each in node.within():
            if each.name == "AttributeReference":
                named[each.id] += 1
            elif each.name == "GetStructField" and each.children[0].name == "AttributeReference":
                column = columns.get(each.children[0].id)
                if column is not None:
                    taken.setdefault(column.id, []).append(_field_name(column, each))
        if node.name in _CHOOSES:
            passed_on.clear()
        if node.name not in _HANDS_ON:
            break
    parts = {
        number: fields for number, fields in taken.items() if number not in passed_on and named[number] == len(fields)
    }
    return UsedColumns(
        frozenset(_name(columns[each]) for each in columns if each in passed_on | named.keys() and each not in parts),
        {_name(columns[number]): frozenset(fields) for number, fields in parts.items()},
    )


def _picked(node: Node) -> set[int] | None:
    """The columns that a choice without any computation passes on; None for another operator."""
    chosen = node.expressions("projectList") if node.name == "Project" else []
    plain = chosen and all(each.name == "AttributeReference" for each in chosen)
    return {each.id for each in chosen} if plain else None


def _name(column: Node) -> str:
    return str(column.fields["name"])


def _field_name(column: Node, access: Node) -> str:
    """The name of the field that `access` takes out of a struct column."""
    return str(column.fields["dataType"]["fields"][int(access.fields["ordinal"])]["name"])
