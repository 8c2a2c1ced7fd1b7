"""Every value that a sink takes is what its reader gets, and no other row is refused: edges of each type, and drawn
rows of nested types. `python -m tests.contract.draws` draws 10,000 for each sink."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.draws import search
from tests.contract.value_sinks import SINKS, cycled, is_taken
from tests.contract.values import CONTAINERS, TYPES, contained
from tests.support.today import turn
from tidegate.sinks.value_table import TABLE, RefusedType, kind_of

_DRAWS = 30


@turn(3, of=4)
@pytest.mark.parametrize("name", SINKS)
def test_the_edges_of_each_type_come_back_from_each_container(name: str, tmp_path: Path) -> None:
    wrong: dict[tuple[str, str], str] = {}
    for number, cell in enumerate((each, container) for each in TYPES for container in CONTAINERS):
        edges = contained(*cell)
        if edges is not None and is_taken(SINKS[name], edges[0]):
            found = cycled(SINKS[name], {"v": edges}, tmp_path / str(number))
            wrong |= {} if found is None else {cell: found}
    assert wrong == {}


@turn(0, of=3)
@pytest.mark.parametrize("name", SINKS)
def test_drawn_rows_come_back(name: str) -> None:
    drawn, rows = search(SINKS[name], _DRAWS)
    assert drawn >= _DRAWS
    assert rows >= drawn


def test_the_table_and_the_sinks_agree_on_plain_columns() -> None:
    for name, sink in SINKS.items():
        for type_name, (kind, _) in TYPES.items():
            if kind is not None:
                refused = isinstance(TABLE[kind_of(kind)][sink.target], RefusedType)
                assert is_taken(sink, kind) is not refused, (name, type_name)
