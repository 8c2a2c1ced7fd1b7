"""Plans and expressions that are deeper than Python's stack: a program that adds conditions in a loop makes them."""

from __future__ import annotations

import sys
from typing import Any

from tidegate.spark.plan_tree import Columns, tree

LEVELS = 2 * sys.getrecursionlimit()


def node(name: str, children: int, **fields: Any) -> dict[str, Any]:
    return {"class": f"org.apache.spark.{name}", "num-children": children, **fields}


def literal(value: int) -> dict[str, Any]:
    return node("Literal", 0, value=value, dataType="integer")


def test_a_condition_of_a_thousand_parts_is_read():
    """Each `|` of Python's is a level more, to the left."""
    conditions = tree([*(node("Or", 2) for _ in range(LEVELS)), *(literal(each) for each in range(LEVELS + 1))])
    text = Columns(conditions).text(conditions)
    assert text.startswith("(" * LEVELS + "0 OR 1)")
    assert text.endswith(f" OR {LEVELS})")


def test_nodes_come_from_above_and_from_the_left():
    found = tree([node("And", 2), node("Not", 1), literal(1), literal(2)])
    assert [each.name for each in found.below()] == ["And", "Not", "Literal", "Literal"]
    assert Columns(found).text(found) == "(not(1) AND 2)"
