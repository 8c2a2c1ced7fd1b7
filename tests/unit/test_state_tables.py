"""Which table of state is meant is said without a guess."""

from __future__ import annotations

import pytest

from tests.unit.test_restoring import OPERATOR, saved, savepoint
from tidegate.core.errors import TidegateError
from tidegate.core.records import SavedQuery, StatefulOperator
from tidegate.savepoints.state_tables import StateTable, chosen, tables_of

JOIN = StatefulOperator(number=1, name="symmetricHashJoin", stores=("left", "right"), partitions=2)


def choose(
    queries: list[SavedQuery], query: str, operator: int | None = None, store: str | None = None
) -> tuple[SavedQuery, StateTable]:
    tables = [table for each in queries for table in tables_of(each)]
    return chosen(savepoint(*queries), tables, query, operator, store, "here")


def test_the_only_table_need_not_be_named():
    found = choose([saved("counts"), saved("pairs", operators=(JOIN,))], "counts")
    assert found == (saved("counts"), StateTable("counts", 0, "stateStoreSave", "default"))


def test_of_several_tables_the_one_is_meant_that_is_named():
    several = saved("counts", operators=(OPERATOR, JOIN))
    assert [str(table) for table in tables_of(several)] == [
        "operator 0 (stateStoreSave) default",
        "operator 1 (symmetricHashJoin) left",
        "operator 1 (symmetricHashJoin) right",
    ]
    assert choose([several], "counts", 1, "right")[1].store == "right"
    assert choose([several], "counts", None, "left")[1].operator == 1
    assert choose([several], "counts", 0)[1].kind == "stateStoreSave"


@pytest.mark.parametrize(
    ("query", "operator", "store"),
    [("words", None, None), ("counts", None, None), ("counts", 1, None), ("counts", 2, None), ("counts", 0, "left")],
)
def test_what_is_not_there_or_means_several_is_refused_and_what_there_is_is_said(
    query: str, operator: int | None, store: str | None
):
    with pytest.raises(TidegateError) as caught:
        choose([saved("counts", operators=(OPERATOR, JOIN))], query, operator, store)
    assert (caught.value.code, caught.value.where) == ("TG-STATE-TABLE", "here")
    assert ("counts" if query == "words" else "operator 1 (symmetricHashJoin) left") in caught.value.expected


def test_a_query_without_state_says_so():
    with pytest.raises(TidegateError) as caught:
        choose([saved("counts", operators=())], "counts")
    assert "none: the query has no state" in caught.value.expected
