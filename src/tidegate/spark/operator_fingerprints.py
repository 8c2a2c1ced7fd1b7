"""The fingerprint of each stateful operator of a query, read from its analyzed plan: the program's declaration before
Spark's optimizer changes it. So it is the same for each version of Spark.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias, cast

import numpy as np
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidegate.core.fingerprints import FingerprintPart
from tidegate.core.records import OperatorFingerprint
from tidegate.spark.operator_uids import operator_nodes, plan_nodes
from tidegate.spark.plan_tree import Columns, Node, has_no_lasting_text, tree, tree_of, type_text
from tidegate.spark.state.python import StatefulFunction, stateful_function

Parts: TypeAlias = Iterator[tuple[FingerprintPart, str | None]]
"""None: unknown, and not compared."""

_LOG = logging.getLogger("tidegate")
_NONE = "none"
_KEY_ORDER = "spark.sql.dropDuplicates.deterministicKeyOrder.enabled"
"""Since Spark 4.3. Without it Spark makes a set of the columns, and Scala keeps the order of at most four."""
_ORDERED_AT_MOST = 4


def fingerprints_of(rows: DataFrame, mode: str, where: str) -> tuple[OperatorFingerprint, ...] | None:
    """The fingerprints of the stateful operators of a query in this output mode, from the last one to the sources.
    None, with a warning, if Spark's plan cannot be read: then they are not compared.
    """
    try:
        return tuple(_fingerprints(rows, mode, where))
    except (PySparkException, Py4JError, ValueError, LookupError, TypeError, AttributeError) as error:
        _LOG.warning("%s: its stateful operators could not be read, and are not compared: %r", where, error)
        return None


def _fingerprints(rows: DataFrame, mode: str, where: str) -> Iterator[OperatorFingerprint]:
    found = [each for each in operator_nodes(rows) if each.kind != "GlobalLimit" or mode == "append"]
    if not found:
        return
    plan = _plan(rows)
    nodes, columns = list(plan.below()), Columns(plan)
    keeps_order = _keeps_key_order(rows.sparkSession)
    for number, each in enumerate(found):
        _add_values(nodes[each.place], each.node)
        operator = _Operator(nodes[each.place], each.node, mode, where, keeps_order=keeps_order)
        written = operator.compared(columns)
        followed = operator.compared(columns.where_they_come_from())
        yield OperatorFingerprint(
            number=number,
            uid=each.uid or "",
            compared=written,
            origins={part: text for part, text in followed.items() if text != written[part]},
            told=operator.told(columns),
        )


def _plan(rows: DataFrame) -> Node:
    frame: Any = rows._jdf  # pyright: ignore[reportPrivateUsage]
    return tree_of(frame.queryExecution().analyzed())


def _add_values(node: Node, real: Any) -> None:
    """Replace literals whose text in Spark's JSON changes: bytes have their address in memory there, and timestamps the
    time in the zone of the JVM.
    """
    if not any(map(has_no_lasting_text, node.within())):
        return
    expressions = real.expressions()
    real_ones = [each for index in range(expressions.size()) for each in plan_nodes(expressions.apply(index))]
    for each, real_one in zip(node.within(), real_ones, strict=True):
        if has_no_lasting_text(each):
            value = real_one.value()
            text = value.hex() if isinstance(value, bytes) else f"{np.datetime64(int(value), 'us')}Z"
            cast("dict[str, Any]", each.fields)["value"] = text


def _keeps_key_order(session: SparkSession) -> bool:
    try:
        return session.conf.get(_KEY_ORDER) == "true"
    except PySparkException:  # a Spark without the setting
        return False


class _Operator:
    """One operator: its node as JSON, and Spark's own object for values that JSON leaves out."""

    def __init__(self, node: Node, real: Any, mode: str, where: str, *, keeps_order: bool) -> None:
        self._keeps_order = keeps_order
        self._node = node
        self._real = real
        self._mode = mode
        self._where = where

    def compared(self, columns: Columns) -> dict[str, str]:
        """The parts, with these names of columns."""
        own = self._node.fields.get("outputMode")
        parts: list[tuple[FingerprintPart, str | None]] = [
            (FingerprintPart.KIND, _KINDS[self._node.name]),
            (
                FingerprintPart.MODE,
                self._mode if own is None else f"{self._mode}; of the function: {_object(own).lower()}",
            ),
            *_PARTS[self._node.name](self, columns),
        ]
        return {part.label: text for part, text in parts if text is not None}

    def told(self, columns: Columns) -> dict[str, str]:
        body = self._function.body if self._node.name in _PYTHON else ""
        parts = ((FingerprintPart.DELAY, self._delays(columns)), (FingerprintPart.BODY, body))
        return {part.label: text for part, text in parts if text}

    # --- the kinds -----------------------------------------------------------------------------------------

    def aggregation(self, columns: Columns) -> Parts:
        keys, functions = self._node.expressions("groupingExpressions"), self._aggregates(columns)
        yield from _keyed(columns, keys, [*keys, *functions])
        yield FingerprintPart.AGGREGATES, _list(map(columns.text, functions))

    def distinct(self, columns: Columns) -> Parts:
        yield from _keyed(columns, self._input)

    def deduplication(self, columns: Columns) -> Parts:
        yield from self._deduplicated(columns, self._node.expressions("keys"))

    def deduplication_within_watermark(self, columns: Columns) -> Parts:
        yield from self._deduplicated(columns, self._input)

    def _deduplicated(self, columns: Columns, times: Sequence[Node]) -> Parts:
        """Spark 4.2 takes more than four columns in an order of its own. Spark 4.3 keeps this order for its
        checkpoints.
        """
        keys = self._node.expressions("keys")
        if len(keys) <= _ORDERED_AT_MOST:
            yield from _keyed(columns, keys, times=times)
            return
        yield from _keyed(columns, sorted(keys, key=columns.text), times=times)
        if self._keeps_order:
            yield FingerprintPart.ORDER, _list(map(columns.text, keys))

    def join(self, columns: Columns) -> Parts:
        condition = self._node.fields.get("condition")
        parts = [] if condition is None else list(_conjuncts(tree(condition)))
        used = [each for part in parts for each in part.below() if each.name == "AttributeReference"]
        yield FingerprintPart.JOIN, _words(_object(self._node.fields["joinType"]))
        yield FingerprintPart.CONDITION, _Sides(columns, self._left).condition(parts)
        yield FingerprintPart.WATERMARK, columns.event_times(used)
        yield FingerprintPart.TYPES, columns.types(parts)

    def limit(self, columns: Columns) -> Parts:
        yield FingerprintPart.LIMIT, columns.text(self._node.expression("limitExpr"))

    def python_groups(self, columns: Columns) -> Parts:
        yield from _keyed(columns, self._node.expressions("groupingAttributes"), times=self._input)
        yield FingerprintPart.FUNCTION, self._function.name
        yield FingerprintPart.STATE, type_text(self._node.fields["stateType"]).removeprefix("struct<").removesuffix(">")
        yield FingerprintPart.TIME, _words(_object(self._node.fields["timeout"]))

    def processor(self, columns: Columns) -> Parts:
        yield from _keyed(columns, _attributes(self._real.leftAttributes()), times=self._input)
        yield FingerprintPart.FUNCTION, self._function.name
        yield FingerprintPart.STATE, self._function.variables
        yield FingerprintPart.TIME, _words(_object(self._node.fields["timeMode"]))

    def groups_of_the_jvm(self, columns: Columns) -> Parts:
        """Python programs have none, except from a library of the JVM."""
        yield from _keyed(columns, self._node.expressions("groupingAttributes"), times=self._input)
        time = self._node.fields.get("timeout", self._node.fields.get("timeMode"))
        yield FingerprintPart.TIME, None if time is None else _words(_object(time))

    # --- common parts --------------------------------------------------------------------------------------

    def _aggregates(self, columns: Columns) -> list[Node]:
        """The aggregate functions of an operator, each once, in the order of its result: Spark stores their buffers in
        this order.
        """
        found: dict[str, Node] = {}
        for expression in self._node.expressions("aggregateExpressions"):
            for each in expression.below():
                if each.name == "AggregateExpression":
                    found.setdefault(columns.text(each), each)
        return list(found.values())

    def _delays(self, columns: Columns) -> str:
        """By event-time column below the operator; of two joined streams both count."""
        found: set[str] = set()
        for each, real in zip(self._node.below(), plan_nodes(self._real), strict=True):
            if each.name == "EventTimeWatermark":
                found.add(f"{columns.name(each.expression('eventTime').id)}: {real.delay()}")
        return ", ".join(sorted(found))

    @cached_property
    def _function(self) -> StatefulFunction:
        command: Any = self._real.functionExpr().func().command()
        return stateful_function(bytes(command.unsafeArray()), self._where)

    @cached_property
    def _input(self) -> list[Node]:
        """The columns that come in."""
        return _attributes(self._real.children().apply(0).output())

    @cached_property
    def _left(self) -> set[int]:
        """The columns of the left side of a join."""
        return {each.id for each in _attributes(self._real.left().output())}


def _keyed(columns: Columns, keys: Sequence[Node], used: Sequence[Node] = (), times: Sequence[Node] = ()) -> Parts:
    yield FingerprintPart.KEYS, _list(map(columns.text, keys))
    yield FingerprintPart.WATERMARK, columns.event_times(times or keys)
    yield FingerprintPart.TYPES, columns.types(used or keys)


def _attributes(attributes: Any) -> list[Node]:
    return [tree_of(attributes.apply(index)) for index in range(attributes.size())]


@dataclass(frozen=True, slots=True)
class _Sides:
    """A join's condition, with the side of each column, because both sides may have the same name."""

    columns: Columns
    left: set[int]

    def condition(self, parts: Sequence[Node]) -> str:
        """The condition of a join as text: first the pairs of equal columns, in the order of the state's key, then all
        other conditions, sorted.
        """
        equal = [self._equality(each) for each in parts if self._is_key(each)]
        rest = sorted(self._text(each) for each in parts if not self._is_key(each))
        return " AND ".join([*equal, *rest]) or _NONE

    def _is_key(self, part: Node) -> bool:
        return part.name in ("EqualTo", "EqualNullSafe") and {self._side(each) for each in part.children} == {
            "left",
            "right",
        }

    def _equality(self, part: Node) -> str:
        """`a = b` and `b = a` are the same key."""
        first, second = sorted(part.children, key=self._side)
        return f"{self._text(first)} {'=' if part.name == 'EqualTo' else '<=>'} {self._text(second)}"

    def _side(self, expression: Node) -> str:
        sides = {
            "left" if each.id in self.left else "right"
            for each in expression.below()
            if each.name == "AttributeReference"
        }
        return sides.pop() if len(sides) == 1 else ""

    def _text(self, expression: Node) -> str:
        return self.columns.text(expression, lambda column: "left." if column in self.left else "right.")


_KINDS: Mapping[str, str] = {
    "Aggregate": "aggregation",
    "Deduplicate": "dropDuplicates",
    "DeduplicateWithinWatermark": "dropDuplicatesWithinWatermark",
    "Distinct": "distinct",
    "FlatMapGroupsInPandasWithState": "applyInPandasWithState",
    "FlatMapGroupsWithState": "flatMapGroupsWithState",
    "GlobalLimit": "limit",
    "Join": "join",
    "TransformWithState": "transformWithState of the JVM",
    "TransformWithStateInPySpark": "transformWithState",
}
_PARTS: Mapping[str, Callable[[_Operator, Columns], Parts]] = {
    "Aggregate": _Operator.aggregation,
    "Deduplicate": _Operator.deduplication,
    "DeduplicateWithinWatermark": _Operator.deduplication_within_watermark,
    "Distinct": _Operator.distinct,
    "FlatMapGroupsInPandasWithState": _Operator.python_groups,
    "FlatMapGroupsWithState": _Operator.groups_of_the_jvm,
    "GlobalLimit": _Operator.limit,
    "Join": _Operator.join,
    "TransformWithState": _Operator.groups_of_the_jvm,
    "TransformWithStateInPySpark": _Operator.processor,
}
_PYTHON = frozenset({"FlatMapGroupsInPandasWithState", "TransformWithStateInPySpark"})


def _conjuncts(expression: Node) -> Iterator[Node]:
    left = [expression]
    while left:
        each = left.pop()
        if each.name == "And":
            left.extend(reversed(each.children))
        else:
            yield each


def _object(value: Any) -> str:
    """The name of a Scala object."""
    name = str(value["object"] if "object" in value else value["product-class"])
    return name.rstrip("$").replace("$", ".").rpartition(".")[2]


def _words(name: str) -> str:
    """`LeftOuter` as `left outer`."""
    return "".join(f" {each.lower()}" if each.isupper() else each for each in name).strip()


def _list(texts: Any) -> str:
    return ", ".join(texts) or _NONE
