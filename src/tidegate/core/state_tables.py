"""The state in a savepoint as tables: one for each store of a stateful operator, and how one of them is named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import SavedQuery, SavepointRecord

PARQUET = ".parquet"
"""How the files of a table end in a canonical savepoint."""


@dataclass(frozen=True, slots=True)
class StateTable:
    """One store of one stateful operator: `query` by its uid, `operator` by its number in Spark's plan, `kind` as Spark
    calls it, `store` by its name. A join has several stores, custom state has its variables, everything else has one,
    `default`."""

    query: str
    operator: int
    kind: str
    store: str

    @property
    def folder(self) -> str:
        """Where a canonical savepoint has its files."""
        return f"queries/{self.query}/state/{self.operator}/{self.store}"

    def __str__(self) -> str:
        return f"operator {self.operator} ({self.kind}) {self.store}"


def tables_of(saved: SavedQuery) -> tuple[StateTable, ...]:
    """Those of a query, in the order of its operators and their stores; custom state is one."""
    return tuple(
        StateTable(saved.done.query, operator.number, operator.name, store)
        for operator in saved.operators
        for store in operator.stores
    )


def chosen(
    savepoint: SavepointRecord,
    tables: Sequence[StateTable],
    query: str,
    operator: int | None,
    store: str | None,
    where: str,
) -> tuple[SavedQuery, StateTable]:
    """The one that is meant of the savepoint's tables. Raises STATE_TABLE where it is none, or several."""
    queries = {each.done.query: each for each in savepoint.queries}
    if query not in queries:
        raise _none(f"the uid of a query: {', '.join(sorted(queries))}", query, where)
    its_own = [each for each in tables if each.query == query]
    found = [
        each
        for each in its_own
        if (operator is None or each.operator == operator) and (store is None or each.store == store)
    ]
    if len(found) != 1:
        there = "; ".join(map(str, its_own)) or "none: the query has no state"
        asked = "any" if operator is None else operator, "any" if store is None else store
        raise _none(f"operator= and store= of one of: {there}", f"operator {asked[0]}, store {asked[1]}", where)
    return queries[query], found[0]


def _none(expected: str, found: str, where: str) -> TidegateError:
    return TidegateError(
        Code.STATE_TABLE,
        expected=expected,
        found=found,
        where=where,
        next_step="name one of them; `tidegate savepoint inspect PATH` shows what the savepoint has",
    )
