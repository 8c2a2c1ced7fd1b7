"""A plan of Spark as stable text: without the ids of its expressions, and without renames.

It is read from `TreeNode.toJSON`, which returns every node with its field names: one call for a whole plan. Only fields
that define the result are rendered. Others define the execution, and differ between versions of Spark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, cast

from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a plan or of an expression. `fields` are those of its class, with expressions still as JSON."""

    name: str
    fields: Mapping[str, Any]
    children: tuple[Node, ...]

    def expression(self, field: str) -> Node:
        """The expression in a field that holds one."""
        return tree(self.fields[field])

    def expressions(self, field: str) -> list[Node]:
        """The expressions in a field that holds a sequence of them."""
        return [tree(each) for each in self.fields[field]]

    @property
    def id(self) -> int:
        """Spark's id of an attribute, or of the result of an alias."""
        return int(self.fields["exprId"]["id"])

    def below(self) -> Iterator[Node]:
        """The node itself and all nodes below it, in pre-order.

        Not recursive: a program that adds columns or conditions in a loop makes a tree that is deeper than Python's
        stack.
        """
        left: list[Node] = [self]
        while left:
            node = left.pop()
            yield node
            left.extend(reversed(node.children))

    def within(self) -> Iterator[Node]:
        """All nodes of the expressions in the fields of a node of a plan."""
        for value in self.fields.values():
            for expression in _trees_in(value):
                yield from expression.below()


def tree(nodes: Sequence[Mapping[str, Any]]) -> Node:
    """Build the tree from its nodes, which are given in pre-order. Returns the root."""
    made: list[Node] = []
    for fields in reversed(nodes):
        name = str(fields["class"]).rpartition(".")[2]
        made.append(Node(name, fields, tuple(made.pop() for _ in range(int(fields["num-children"])))))
    return made[-1]


def tree_of(node: Any) -> Node:
    """The tree of a node of Spark: an object of the JVM, of a plan or of an expression."""
    return tree(json.loads(node.toJSON()))


class Columns:
    """The names of a plan's columns, at the operator and at their origin. The origin is found through renames, down to
    a source or to the expression that computes the column. Of an expression only the name and the type count.
    """

    def __init__(self, plan: Node) -> None:
        self._names: dict[int, str] = {}
        self._computed: dict[int, Node] = {}
        self._event_times: set[int] = set()
        self._follows = False
        for node in reversed(list(plan.below())):  # the definition of a column stands below its uses
            for each in node.within():
                if each.name == "Alias":
                    self._names.setdefault(each.id, str(each.fields["name"]))
                    self._computed.setdefault(each.id, each.children[0])
                elif each.name == "AttributeReference":
                    self._names.setdefault(each.id, str(each.fields["name"]))
            if node.name == "Expand":
                self._add_windows(node)
            if node.name == "EventTimeWatermark":
                self._event_times.add(node.expression("eventTime").id)

    def where_they_come_from(self) -> Columns:
        """The same columns by their names at their origin."""
        followed = copy(self)
        followed._follows = True
        return followed

    def _add_windows(self, expand: Node) -> None:
        """Spark makes one row for each sliding window."""
        for column, first in zip(expand.expressions("output"), expand.fields["projections"][0], strict=False):
            expression = tree(first)
            if expression.name != "AttributeReference":
                self._computed.setdefault(column.id, expression)

    def text(self, expression: Node, mark: Callable[[int], str] = lambda _column: "") -> str:
        """An expression in readable form. `mark`: the text before a column of this id."""
        texts: list[str] = []
        for each in reversed(list(expression.below())):
            texts.append(self._text(each, [texts.pop() for _ in each.children], mark))
        return texts[-1]

    def _text(self, expression: Node, children: Sequence[str], mark: Callable[[int], str]) -> str:
        fields = expression.fields
        match expression.name:
            case "AttributeReference":
                return mark(expression.id) + self._column(expression)
            case "Alias":
                return children[0]
            case "Literal":
                return _literal(expression)
            case "Cast":
                return f"cast({children[0]} as {type_text(fields['dataType'])})"
            case "GetStructField" | "GetArrayStructFields":
                return f"{children[0]}.{_field(fields)}"
            case "PythonUDF":
                return f"{fields['name']}({', '.join(children)}): {type_text(fields['dataType'])}"
            case "AggregateExpression":
                return _aggregate(children, distinct=bool(fields.get("isDistinct")))
            case name if name in _SYMBOLS and len(children) == 2:
                return f"({children[0]} {_SYMBOLS[name]} {children[1]})"
            case "NamedLambdaVariable":
                return re.sub(r"_\d+$", "", str(fields["name"]))  # numbered as the program makes them
            case name:
                options = [f"{key}={value}" for key in _MEANING if (value := _option(fields.get(key)))]
                arguments = ", ".join([*_arguments(name, children), *options])
                return f"{_function_name(name)}({arguments}){_nulls(name, fields)}"

    def types(self, expressions: Sequence[Node]) -> str:
        """The names and types of all columns in these expressions, as text."""
        used = [each for expression in expressions for each in self._used(expression)]
        return _list(sorted({f"{self._column(each)} {type_text(each.fields['dataType'])}" for each in used}))

    def event_times(self, expressions: Sequence[Node]) -> str:
        """The columns with a watermark, among these and the time columns of their windows."""
        chains = [each for expression in expressions for each in self._chain_of(expression)]
        return _list(sorted({self.name(each) for each in chains if each in self._event_times}))

    def name(self, column: int) -> str:
        """The name of the column that an expression or a watermark defines. `column`: its id in the plan."""
        return self._names[self._origin(column) if self._follows else column]

    def _used(self, expression: Node) -> Iterator[Node]:
        """The columns in an expression; for a window the columns of its time."""
        for each in expression.below():
            if each.name == "AttributeReference":
                window = self._window(each.id)
                yield from [each] if window is None else self._used(window.time)

    def _chain_of(self, expression: Node) -> Iterator[int]:
        """A column and its origins through renames, windows and window times: they share a watermark."""
        if expression.name != "AttributeReference":
            return
        column: int | None = expression.id
        while column is not None:
            yield column
            computed = self._computed.get(column)
            window = self._window(column)
            if window is not None:
                yield from self._chain_of(window.time)
                return
            computed = computed if computed is None or not _is_window_time(computed) else _window_of(computed)
            column = computed.id if computed is not None and computed.name == "AttributeReference" else None

    def _origin(self, column: int) -> int:
        while (computed := self._computed.get(column)) is not None and computed.name == "AttributeReference":
            column = computed.id
        return column

    def _column(self, reference: Node) -> str:
        window = self._window(reference.id)
        if window is not None:
            return window.text(self.text)
        return self.name(reference.id) if self._follows else str(reference.fields["name"])

    def _window(self, column: int) -> _Window | None:
        """The window that this column of the plan is; None for another column."""
        computed = self._computed.get(self._origin(column))
        return None if computed is None else _Window.of(computed)


@dataclass(frozen=True, slots=True)
class _Window:
    """A time window as Spark's analyzer writes it: arithmetic on microseconds, or on an interval."""

    time: Node
    slide: int | None
    start: int
    length: Node

    @classmethod
    def of(cls, computed: Node) -> _Window | None:
        """The window that this node of the plan computes; None for another node.

        Only Spark's own rules make such nodes.
        """
        if computed.name != "CreateNamedStruct" or len(computed.children) != 4:
            return None
        start, end = computed.children[1], computed.children[3]
        conversions = [each for each in start.below() if each.name == "PreciseTimestampConversion"]
        ends = [each for each in end.below() if each.name in ("Add", "TimeAdd", "TimestampAddInterval")]
        if not conversions or not ends:
            return None
        time = conversions[-1].children[0]
        slides = [each for each in start.below() if each.name == "Remainder"]
        if not slides:
            return cls(time, None, 0, ends[0].children[1])
        shifted, slide = slides[0].children
        return cls(time, _number(slide), _number(shifted.children[1]), ends[0].children[1])

    def text(self, render: Any) -> str:
        if self.slide is None:
            gap = self.length.children[0] if self.length.name == "Cast" else self.length
            return f"session_window({render(self.time)}, {render(gap)})"
        length = _number(self.length)
        parts = [render(self.time), _seconds(length)]
        if self.slide != length or self.start:
            parts.append(_seconds(self.slide))
        if self.start:
            parts.append(_seconds(self.start))
        return f"window({', '.join(parts)})"


def has_no_lasting_text(node: Node) -> bool:
    """True if it is a literal without its value in Spark's JSON."""
    fields = node.fields
    return node.name == "Literal" and fields.get("dataType") in ("binary", "timestamp") and fields["value"] is not None


def type_text(data_type: Any) -> str:
    """A type in Spark's notation, from its JSON."""
    if data_type is None:
        return "unknown"
    field = {"name": "it", "type": data_type, "nullable": True, "metadata": {}}
    try:
        return StructType.fromJson({"type": "struct", "fields": [field]})[0].dataType.simpleString()
    except (KeyError, TypeError, ValueError, AttributeError):  # a type of an unknown class
        return str(data_type)


_SYMBOLS: Mapping[str, str] = {
    "Add": "+",
    "Subtract": "-",
    "Multiply": "*",
    "Divide": "/",
    "Remainder": "%",
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "And": "AND",
    "Or": "OR",
}
_NAMES: Mapping[str, str] = {
    "Average": "avg",
    "HyperLogLogPlusPlus": "approx_count_distinct",
    "ApproximatePercentile": "percentile_approx",
    "CreateNamedStruct": "struct",
    "VariancePop": "var_pop",
    "VarianceSamp": "var_samp",
}
"""Common names, if they differ from the name of the class."""

_MEANING = (
    *("relativeSD", "reverse", "reverseOpt", "direction", "nullOrdering", "functionName", "udfName"),
    *("unit", "escapeChar"),
)
"""The fields, except children, that define the result. They are the same in Spark 4.2 and 4.3."""


def _aggregate(parts: Sequence[str], *, distinct: bool) -> str:
    function, *conditions = parts
    text = function.replace("(", "(DISTINCT ", 1) if distinct else function
    return "".join([text, *(f" FILTER (WHERE {each})" for each in conditions)])


def _field(fields: Mapping[str, Any]) -> str:
    """The name of the field that is taken out of a struct, or out of each struct of an array."""
    of_each = fields.get("field")
    return str(fields.get("name") or fields["ordinal"] if of_each is None else of_each["name"])


def _arguments(name: str, children: Sequence[str]) -> Sequence[str]:
    """A column may be `isin` a Python set, whose order differs in each process."""
    return [children[0], *sorted(children[1:])] if name == "In" else children


def _nulls(name: str, fields: Mapping[str, Any]) -> str:
    """`IGNORE NULLS` or `RESPECT NULLS`, if a function treats nulls differently from its default; else empty."""
    ignored, by_default = fields.get("ignoreNulls"), name.startswith("Collect")
    if not isinstance(ignored, bool) or ignored == by_default:
        return ""
    return " IGNORE NULLS" if ignored else " RESPECT NULLS"


def _option(value: Any) -> str:
    """Empty if the value is absent or off."""
    if value is None or value is False:
        return ""
    if isinstance(value, Mapping):  # a Scala object
        return str(cast("Mapping[str, Any]", value).get("object", "")).rpartition(".")[2].rstrip("$")
    return str(value).lower() if value is True else str(value)


def _function_name(name: str) -> str:
    return _NAMES.get(name) or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _literal(node: Node) -> str:
    value, kind = node.fields.get("value"), type_text(node.fields.get("dataType"))
    if value is None:
        return "NULL" if kind == "void" else f"NULL: {kind}"
    if kind == "string":
        return f"'{value}'"
    return str(value) if kind in ("int", "boolean") else f"{kind} {value}"


def _is_window_time(node: Node) -> bool:
    return node.name == "PreciseTimestampConversion"


def _window_of(node: Node) -> Node | None:
    return next((each for each in node.below() if each.name == "AttributeReference"), None)


def _number(node: Node) -> int:
    return int(node.fields["value"])


def _seconds(microseconds: int) -> str:
    return f"{Decimal(microseconds).scaleb(-6).normalize():f} seconds"


def _list(texts: Sequence[str]) -> str:
    return ", ".join(texts) or "none"


def _trees_in(value: Any) -> Iterator[Node]:
    if not isinstance(value, list) or not value:
        return
    items = cast("list[Any]", value)
    if isinstance(items[0], Mapping):
        if "class" in items[0]:
            yield tree(items)
    else:
        for each in items:
            yield from _trees_in(each)
