"""The checks before a start of the SQLite sink. They check everything, and create and change nothing."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

from tidegate.core.errors import Code, TidegateError
from tidegate.sinks.arrow import fields_of
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.keyed import keys_not_in_rows
from tidegate.sinks.refusals import (
    complete_without_key,
    key_without_index,
    not_on_a_cluster,
    same_but_for_case,
    would_change_values,
)
from tidegate.sinks.sqlite.conflicts import unfit_policy
from tidegate.sinks.sqlite.declared import DeclaredSQLiteSink
from tidegate.sinks.sqlite.ledger import LEDGER
from tidegate.sinks.sqlite.stage import uri
from tidegate.sinks.sqlite.values import affinity_of
from tidegate.sinks.sqlite.words import COLUMNS_AT_MOST, remedy_of
from tidegate.sinks.staging import unwritable
from tidegate.sinks.value_table import Target, violations

_HOLDS: dict[str, frozenset[str]] = {
    "INTEGER": frozenset({"INTEGER", "NUMERIC", "BLOB"}),
    "REAL": frozenset({"REAL", "BLOB"}),
    "TEXT": frozenset({"TEXT", "BLOB"}),
    "BLOB": frozenset({"BLOB"}),
}
"""The column affinities that keep our values unchanged. A column without a type has affinity BLOB."""


def violations_of(sink: DeclaredSQLiteSink, plan: SinkPlan) -> list[TidegateError]:
    """Every violation, for rows of `plan.schema`."""
    check = _SQLiteCheck(sink, plan)
    found = [*check.surroundings(), *check.settings(), *check.rows(), *check.existing_table()]
    unfit = unfit_policy(sink.uid, sink.on_conflict, sink.key, sink.conflicts_into)
    return found if unfit is None else [*found, unfit]


class _SQLiteCheck:
    def __init__(self, sink: DeclaredSQLiteSink, plan: SinkPlan) -> None:
        self._plan = plan
        self._path = sink.path
        self._table = sink.table
        self._key = sink.key
        self._where = f"sink {plan.identity.sink!r}: table {sink.table!r} in {sink.path}"

    def surroundings(self) -> Iterator[TidegateError]:
        if not self._plan.local_master:
            yield not_on_a_cluster(self._where)
        reason = unwritable(self._path.parent)
        if reason:
            yield self._violation(
                Code.SINK_UNUSABLE,
                "a folder that can be written",
                reason,
                "give another path, or give this user the rights",
            )

    def settings(self) -> Iterator[TidegateError]:
        if self._plan.mode == "complete" and not self._key:
            yield complete_without_key(self._where)
        if not self._table or self._table.lower().startswith("sqlite_") or self._table.lower() == LEDGER:
            yield self._violation(
                Code.SINK_UNUSABLE, "a table name of your own", repr(self._table), "give another `table`"
            )
        yield from keys_not_in_rows(self._key, self._plan.schema, self._where)

    def rows(self) -> Iterator[TidegateError]:
        yield from violations(self._plan.schema, Target.SQLITE, self._where)
        if len(self._plan.schema.names) > COLUMNS_AT_MOST:
            yield self._violation(
                Code.SCHEMA_MISMATCH,
                f"at most {COLUMNS_AT_MOST} columns, which is SQLite's limit",
                f"{len(self._plan.schema.names)}",
                "choose fewer in select=[...], put some of them into one with F.to_json(F.struct(...)), or write files",
            )
        counted = Counter(name.lower() for name in self._plan.schema.names)
        for name in (name for name, times in counted.items() if times > 1):
            yield same_but_for_case(f"several columns named {name!r}", self._where)

    def existing_table(self) -> Iterator[TidegateError]:
        if not self._path.exists():
            return
        try:
            with closing(sqlite3.connect(uri(self._path, "rw"), uri=True)) as target:
                yield from self._table_in(target)
        except sqlite3.Error as error:
            yield self._violation(Code.SINK_UNUSABLE, "a SQLite database", str(error), remedy_of(error, self._path))

    def _table_in(self, target: sqlite3.Connection) -> Iterator[TidegateError]:
        found = target.execute("SELECT type FROM sqlite_master WHERE lower(name) = lower(?)", (self._table,)).fetchone()
        if found is None:
            return
        if found != ("table",):
            yield self._violation(Code.SCHEMA_MISMATCH, "a table", f"a {found[0]}", "give another `table`")
            return
        columns = {
            name.lower(): (declared, primary)
            for name, declared, primary in target.execute(
                "SELECT name, type, pk FROM pragma_table_info(?)", (self._table,)
            )
        }
        yield from self._columns({name: declared for name, (declared, _) in columns.items()})
        if self._key and not self._unique(target, {name for name, (_, primary) in columns.items() if primary}):
            yield key_without_index(self._key, self._where)

    def _columns(self, declared: dict[str, str]) -> Iterator[TidegateError]:
        kinds = {field.name.lower(): field.type for field in fields_of(self._plan.schema)}
        missing, surplus = sorted(kinds.keys() - declared.keys()), sorted(declared.keys() - kinds.keys())
        if missing or surplus:
            yield self._violation(
                Code.SCHEMA_MISMATCH,
                "a table with exactly the rows' columns",
                f"not in the table: {missing}; not in the rows: {surplus}",
                "choose the columns with select=[...], or ALTER TABLE",
            )
        for name in sorted(kinds.keys() & declared.keys()):
            wanted = affinity_of(kinds[name])
            if wanted is not None and column_affinity(declared[name]) not in _HOLDS[wanted]:
                yield would_change_values(name, wanted, kinds[name], declared[name], self._where)

    def _unique(self, target: sqlite3.Connection, primary: set[str]) -> bool:
        wanted = {name.lower() for name in self._key}
        indexes = target.execute(
            'SELECT name FROM pragma_index_list(?) WHERE "unique" AND NOT partial', (self._table,)
        ).fetchall()
        covered = [
            {name and name.lower() for (name,) in target.execute("SELECT name FROM pragma_index_info(?)", index)}
            for index in indexes
        ]
        return wanted in [primary, *covered]

    def _violation(self, code: Code, expected: str, found: str, next_step: str) -> TidegateError:
        return TidegateError(code, expected=expected, found=found, where=self._where, next_step=next_step)


def column_affinity(declared: str) -> str:
    """SQLite's own rules, in their order (sqlite.org/datatype3.html, section 3.1)."""
    declared = declared.upper()
    for parts, affinity in (
        (("INT",), "INTEGER"),
        (("CHAR", "CLOB", "TEXT"), "TEXT"),
        (("BLOB",), "BLOB"),
        (("REAL", "FLOA", "DOUB"), "REAL"),
    ):
        if any(part in declared for part in parts):
            return affinity
    return "NUMERIC" if declared else "BLOB"
