"""Names for stateful operators. Spark itself distinguishes them only by their number in the plan.

A name is a tag of the operator's node in the analyzed plan. It does not change the computation, and every DataFrame
that is made of this one keeps it. The optimizer merges nodes and loses tags, but keeps the order of stateful operators.
Spark numbers them from the last one to the sources, those of a left side before those of a right one
(`IncrementalExecution`, seen in 4.2 and 4.3). So the number of an operator is its place among them, and its kind
confirms it.

One case is not detected: stacked stream joins that the optimizer swaps (a semi or anti join above another join). Only
the schemas of their state distinguish them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec
from pyspark.sql import DataFrame

from tidegate.core.errors import Code, TidegateError
from tidegate.core.names import NAME_RULE, is_name, shown
from tidegate.core.records import StatefulOperator

_TAG = "tidegate.uid"
"""The key under which Spark stores the tag."""

_KINDS: Mapping[str, frozenset[str]] = {
    "Aggregate": frozenset({"stateStoreSave", "sessionWindowStateStoreSaveExec"}),
    "Deduplicate": frozenset({"dedupe"}),
    "DeduplicateWithinWatermark": frozenset({"dedupeWithinWatermark"}),
    "Distinct": frozenset({"stateStoreSave"}),
    "FlatMapGroupsInPandasWithState": frozenset({"applyInPandasWithState"}),
    "FlatMapGroupsWithState": frozenset({"flatMapGroupsWithState"}),
    "GlobalLimit": frozenset({"globalLimit"}),
    "Join": frozenset({"symmetricHashJoin"}),
    "TransformWithState": frozenset({"transformWithStateExec"}),
    "TransformWithStateInPySpark": frozenset({"transformWithStateInPandasExec", "transformWithStateInPySparkExec"}),
}
"""The nodes of an analyzed plan that keep state in a stream, and Spark's names of their state."""


def uid(name: str, df: DataFrame) -> DataFrame:
    """Give a uid to the stateful operator on top of `df`: the last aggregation, join, `dropDuplicates`, limit or custom
    state operator that its rows come from. A savepoint finds the state of an operator by the uid, at any place in the
    plan of the query.

    `name`: 1 to 64 letters, digits, `-` or `_`, unique among the operators of a query. Returns `df` with the same rows
    and columns. See https://nightlies.apache.org/flink/flink-docs-stable/docs/ops/state/savepoints/ ("Assigning
    Operator IDs") for the reason to give each operator a uid.

    Raises UID_INVALID for an invalid name, UID_DUPLICATE if the operator already has another name, and QUERY_REFUSED if
    there is no stateful operator, or if several streams meet below it.
    """
    if not isinstance(name, str) or not is_name(name):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise _refused(Code.UID_INVALID, NAME_RULE, shown(str(name)), name, "give the operator such a name")
    operator, tag = _operator_on_top(name, df), _tag(df)
    given = operator.getTagValue(tag)
    if given.isDefined() and given.get() != name:
        found = f"{given.get()}, given before"
        raise _refused(Code.UID_DUPLICATE, "a stateful operator without a uid", found, name, "give it one uid")
    operator.setTagValue(tag, name)
    return df


def uids_given(rows: DataFrame) -> list[str]:
    """The uids of the stateful operators below `rows`, repeated if an operator occurs more than once."""
    return [each.uid for each in operator_nodes(rows) if each.uid is not None]


@dataclass(frozen=True, slots=True)
class OperatorNode:
    """A node of an analyzed plan that keeps state: its kind, its uid, and its place among all nodes in pre-order."""

    kind: str
    uid: str | None
    place: int
    node: Any


def operator_nodes(rows: DataFrame) -> Iterator[OperatorNode]:
    """The stateful operators below `rows`, in Spark's order."""
    tag = _tag(rows)
    for place, node in enumerate(plan_nodes(_analyzed(rows))):
        if _keeps_state(node):
            given = node.getTagValue(tag)
            yield OperatorNode(str(node.nodeName()), str(given.get()) if given.isDefined() else None, place, node)


def plan_nodes(node: Any) -> Iterator[Any]:
    """A node of Spark's plan and all nodes below it, in pre-order."""
    left = [node]
    while left:
        node = left.pop()
        yield node
        children = node.children()
        left.extend(children.apply(index) for index in reversed(range(children.size())))


def with_uids(rows: DataFrame, operators: Sequence[StatefulOperator], where: str) -> tuple[StatefulOperator, ...]:
    """The operators that Spark has planned for `rows`, with their uids. Raises QUERY_REFUSED if they differ from those
    of the program, because then the uids cannot be assigned.
    """
    found = [(each.kind, each.uid) for each in operator_nodes(rows)]
    if not any(given for _, given in found):
        return tuple(operators)
    if not any(
        each.name == "globalLimit" for each in operators
    ):  # Spark counts the rows that a limit passes in append mode
        found = [(node, given) for node, given in found if node != "GlobalLimit" or given]
    planned = sorted(operators, key=lambda each: each.number)
    if len(planned) != len(found) or any(
        each.name not in _KINDS[node] for each, (node, _) in zip(planned, found, strict=True)
    ):
        raise TidegateError(
            Code.QUERY_REFUSED,
            expected=f"stateful operators as the program has them: {', '.join(node for node, _ in found)}",
            found=", ".join(each.name for each in planned) or "none",
            where=where,
            next_step="take tidegate.uid out of this query; its operators then go by their kind and order",
        )
    return tuple(
        msgspec.structs.replace(each, uid=given or "") for each, (_, given) in zip(planned, found, strict=True)
    )


def _operator_on_top(name: str, df: DataFrame) -> Any:
    node = _analyzed(df)
    while not _keeps_state(node):
        children = node.children()
        if children.size() != 1:
            found = f"{node.nodeName()}, with no such operator above it"
            next_step = "give the uid right behind the operator: tidegate.uid(name, df.groupBy(...).count())"
            raise _refused(Code.QUERY_REFUSED, "a stateful operator on top of the rows", found, name, next_step)
        node = children.apply(0)
    return node


def _keeps_state(node: Any) -> bool:
    if str(node.nodeName()) not in _KINDS:
        return False
    children = node.children()
    inputs = range(children.size() if node.nodeName() == "Join" else 1)  # another second one is of initial state
    return all(children.apply(index).isStreaming() for index in inputs)


def _analyzed(df: DataFrame) -> Any:
    return cast("Any", df._jdf).queryExecution().analyzed()  # pyright: ignore[reportPrivateUsage]


def _tag(df: DataFrame) -> Any:
    jvm: Any = df.sparkSession.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
    return jvm.org.apache.spark.sql.catalyst.trees.TreeNodeTag(_TAG)


def _refused(code: Code, expected: str, found: str, name: object, next_step: str) -> TidegateError:
    return TidegateError(
        code, expected=expected, found=found, where=f"tidegate.uid({name!r}, ...)", next_step=next_step
    )
