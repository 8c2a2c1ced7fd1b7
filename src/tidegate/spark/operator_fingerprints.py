"""The fingerprint of each stateful operator of a query, read from its analyzed plan: what the program has declared,
before Spark's optimizer changes it. So it is the same under each version of Spark.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from tidegate.core.fingerprints import Part
from tidegate.core.records import OperatorFingerprint
from tidegate.spark.operator_uids import operator_nodes, plan_nodes
from tidegate.spark.plan_tree import Columns, Node, tree, type_text
from tidegate.spark.python_state import stateful_function

_LOG = logging.getLogger("tidegate")
_NONE = "none"


def fingerprints_of(rows: DataFrame, mode: str, where: str) -> tuple[OperatorFingerprint, ...] | None:
    """Of the stateful operators of a query in this output mode, from the last one to the sources. None, with a
    warning, where Spark does not give its plan away: then they are not compared."""
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
    for number, each in enumerate(found):
        operator = _Operator(nodes[each.place], each.node, columns, mode, where)
        compared = {part.label: text for part, text in operator.compared() if text is not None}
        told = {part.label: text for part, text in operator.told() if text}
        yield OperatorFingerprint(number=number, uid=each.uid or "", compared=compared, told=told)


def _plan(rows: DataFrame) -> Node:
    frame: Any = rows._jdf  # pyright: ignore[reportPrivateUsage]
    return tree(json.loads(frame.queryExecution().analyzed().toJSON()))


@dataclass(frozen=True, slots=True)
class _Operator:
    """One operator: its node as JSON, and Spark's own for what JSON leaves out."""

    node: Node
    real: Any
    columns: Columns
    mode: str
    where: str

    def compared(self) -> Iterator[tuple[Part, str | None]]:
        yield Part.KIND, _KINDS[self.node.name]
        mode = self.node.fields.get("outputMode")
        own = None if mode is None else _object(mode)
        yield Part.MODE, self.mode if own is None else f"{self.mode}; of the function: {own.lower()}"
        yield from _PARTS[self.node.name](self)

    def told(self) -> Iterator[tuple[Part, str]]:
        yield Part.DELAY, self._delays()
        if self.node.name in _PYTHON:
            yield Part.BODY, self._function().body

    # --- the kinds -----------------------------------------------------------------------------------------

    def aggregation(self) -> Iterator[tuple[Part, str | None]]:
        keys, functions = self.node.expressions("groupingExpressions"), self._aggregates()
        yield from self._keyed(keys, [*keys, *functions])
        yield Part.AGGREGATES, _list(map(self.columns.text, functions))

    def distinct(self) -> Iterator[tuple[Part, str | None]]:
        yield from self._keyed(self._output_of_child())

    def deduplication(self) -> Iterator[tuple[Part, str | None]]:
        yield from self._keyed(self.node.expressions("keys"))

    def deduplication_within_watermark(self) -> Iterator[tuple[Part, str | None]]:
        yield from self._keyed(self.node.expressions("keys"), times=self._output_of_child())

    def join(self) -> Iterator[tuple[Part, str | None]]:
        condition = self.node.fields.get("condition")
        parts = [] if condition is None else list(_conjuncts(tree(condition)))
        left = {each.id for each in self._attributes(self.real.left().output())}
        sides = _Sides(self.columns, left)
        yield Part.JOIN, _words(_object(self.node.fields["joinType"]))
        yield Part.CONDITION, sides.condition(parts)
        used = [each for part in parts for each in part.below() if each.name == "AttributeReference"]
        yield Part.WATERMARK, _list(sorted(self.columns.event_times(used).values()))
        yield Part.TYPES, self.columns.types(parts)

    def limit(self) -> Iterator[tuple[Part, str | None]]:
        yield Part.LIMIT, self.columns.text(self.node.expression("limitExpr"))

    def python_groups(self) -> Iterator[tuple[Part, str | None]]:
        keys = self.node.expressions("groupingAttributes")
        yield from self._keyed(keys, times=self._output_of_child())
        yield Part.FUNCTION, self._function().name
        yield Part.STATE, type_text(self.node.fields["stateType"]).removeprefix("struct<").removesuffix(">")
        yield Part.TIME, _words(_object(self.node.fields["timeout"]))

    def processor(self) -> Iterator[tuple[Part, str | None]]:
        yield from self._keyed(self._attributes(self.real.leftAttributes()), times=self._output_of_child())
        function = self._function()
        yield Part.FUNCTION, function.name
        yield Part.STATE, function.variables
        yield Part.TIME, _words(_object(self.node.fields["timeMode"]))

    def groups_of_the_jvm(self) -> Iterator[tuple[Part, str | None]]:
        """No program in Python has one, but for what it gets from a library of the JVM."""
        keys = self.node.expressions("groupingAttributes")
        yield from self._keyed(keys, times=self._output_of_child())
        time = self.node.fields.get("timeout", self.node.fields.get("timeMode"))
        yield Part.TIME, None if time is None else _words(_object(time))

    # --- what they have in common --------------------------------------------------------------------------

    def _keyed(
        self, keys: Sequence[Node], used: Sequence[Node] = (), times: Sequence[Node] = ()
    ) -> Iterator[tuple[Part, str | None]]:
        yield Part.KEYS, _list(map(self.columns.text, keys))
        yield Part.WATERMARK, _list(sorted(self.columns.event_times(times or keys).values()))
        yield Part.TYPES, self.columns.types(used or keys)

    def _aggregates(self) -> list[Node]:
        """In the order in which Spark keeps their buffers: that of the result, each once."""
        found: dict[str, Node] = {}
        for expression in self.node.expressions("aggregateExpressions"):
            for each in expression.below():
                if each.name == "AggregateExpression":
                    found.setdefault(self.columns.text(each), each)
        return list(found.values())

    def _delays(self) -> str:
        """By event-time column below the operator: where two streams meet both count."""
        found: list[str] = []
        for each, real in zip(self.node.below(), plan_nodes(self.real), strict=True):
            if each.name == "EventTimeWatermark":
                found.append(f"{self.columns.named(each.expression('eventTime').id)}: {real.delay()}")
        return ", ".join(sorted(set(found)))

    def _function(self) -> Any:
        command: Any = self.real.functionExpr().func().command()
        return stateful_function(bytes(command.unsafeArray()), self.where)

    def _output_of_child(self) -> list[Node]:
        return self._attributes(self.real.children().apply(0).output())

    def _attributes(self, attributes: Any) -> list[Node]:
        return [tree(json.loads(attributes.apply(index).toJSON())) for index in range(attributes.size())]


@dataclass(frozen=True, slots=True)
class _Sides:
    """A join's condition, each column with its side, for both may have one of a name."""

    columns: Columns
    left: set[int]

    def condition(self, parts: Sequence[Node]) -> str:
        """The equal columns in their order, which is that of the key of the state; then all else in any order."""
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
_PARTS: Mapping[str, Callable[[_Operator], Iterator[tuple[Part, str | None]]]] = {
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
    if expression.name == "And":
        for each in expression.children:
            yield from _conjuncts(each)
    else:
        yield expression


def _object(value: Any) -> str:
    """The name of an object of Scala's."""
    name = str(value["object"] if "object" in value else value["product-class"])
    return name.rstrip("$").replace("$", ".").rpartition(".")[2]


def _words(name: str) -> str:
    """`LeftOuter` as `left outer`."""
    return "".join(f" {each.lower()}" if each.isupper() else each for each in name).strip()


def _list(texts: Any) -> str:
    return ", ".join(texts) or _NONE
