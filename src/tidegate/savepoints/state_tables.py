"""The state in a savepoint as tables: one for each store of a stateful operator, and the selection of one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import SavedQuery, SavepointRecord

PARQUET = ".parquet"
"""The names of a table's files in a canonical savepoint end so."""


@dataclass(frozen=True, slots=True)
class StateTable:
    """One store of one stateful operator: `query` by its uid, `operator` by its number in Spark's plan, `kind` and
    `store` by Spark's names. `uid`: the operator's uid in the program, or empty. A join has several stores, custom
    state has its variables, all others have one, `default`.
    """

    query: str
    operator: int
    kind: str
    store: str
    uid: str = ""

    @property
    def folder(self) -> str:
        """The place of its files in a canonical savepoint."""
        return f"queries/{self.query}/state/{self.operator}/{self.store}"

    def __str__(self) -> str:
        named = f"{self.kind}, uid {self.uid}" if self.uid else self.kind
        return f"operator {self.operator} ({named}) {self.store}"


@dataclass(frozen=True, slots=True)
class SavedTables:
    """The tables of a query in the canonical savepoint in this folder. `numbers`: by current number of an operator, its
    number in the savepoint; unlisted numbers are unchanged.
    """

    savepoint: str
    numbers: Mapping[int, int]

    def folder_of(self, table: StateTable) -> str:
        """The folder of a table's files, by the current number of its operator."""
        there = replace(table, operator=self.numbers.get(table.operator, table.operator))
        return f"{self.savepoint}/{there.folder}"


def tables_of(saved: SavedQuery) -> tuple[StateTable, ...]:
    """The tables with a query's state, in the order of its operators and their stores.

    A custom state operator has one table.
    """
    return tuple(
        StateTable(saved.done.query, operator.number, operator.name, store, operator.uid)
        for operator in saved.operators
        for store in operator.stores
    )


def chosen(
    savepoint: SavepointRecord,
    tables: Sequence[StateTable],
    query: str,
    operator: int | str | None,
    store: str | None,
    where: str,
) -> tuple[SavedQuery, StateTable]:
    """The table that the arguments select. Raises STATE_TABLE if they match none, or several."""
    queries = {each.done.query: each for each in savepoint.queries}
    if query not in queries:
        raise _none(f"the uid of a query: {', '.join(sorted(queries))}", query, where)
    its_own = [each for each in tables if each.query == query]
    found = [
        each
        for each in its_own
        if (operator is None or operator in (each.operator, each.uid or each.operator))
        and (store is None or each.store == store)
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
