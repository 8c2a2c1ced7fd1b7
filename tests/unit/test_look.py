"""What is made of the plan's own words on its state."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tidegate.spark.look import PlanLook


class Said:
    """As the compiled class, with one plan."""

    def __init__(self, *lines: str) -> None:
        self._lines = lines

    def state(self, _plan: object, _names_files: bool) -> str:
        return "".join(f"{line}\n" for line in self._lines)


def rows(*lines: str) -> dict[str, int | None]:
    look = cast("Any", PlanLook.__new__(PlanLook))
    look._look = Said(*lines)
    found, read = look.state_of(None, names_files=False)
    assert read is None
    return {operator: state.rows for operator, state in found.items()}


def test_the_rows_of_each_operator_are_those_of_its_partitions():
    assert rows("rows 0 2 2 13", "rows 1 1 1 0") == {"0": 13, "1": 0}


@pytest.mark.parametrize("stores", [3, 12])
def test_a_join_has_one_store_in_each_partition_or_four(stores: int):
    assert rows(f"rows 0 3 {stores} 5") == {"0": 5}


@pytest.mark.parametrize("stores", [0, 1, 3, 9, 12])
def test_rows_of_a_partition_that_was_computed_twice_or_not_at_all_are_not_known(stores: int):
    assert rows(f"rows 0 2 {stores} 20", "success 0 1") == {"0": None}
