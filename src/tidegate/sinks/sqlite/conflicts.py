"""Rows that break a UNIQUE index of their table. The commit finds them, after the epoch was decided.

The program fixes their treatment before the start (`OnConflict`). All work happens inside the one transaction that
takes the epoch with its ledger row: so a second finisher finds the epoch committed, with or without such rows.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Sequence
from enum import Enum

import msgspec

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import Attempt
from tidegate.core.redaction import SECRETS
from tidegate.core.telling import DETAIL_AT_MOST, shortened
from tidegate.sinks.dead_letters import COLUMNS
from tidegate.sinks.refusals import row_conflict, unfit_for_dead_letters
from tidegate.sinks.sql_names import list_of, quoted
from tidegate.sinks.sqlite.stage import names_in, positions


class OnConflict(Enum):
    """The treatment of a row that breaks a UNIQUE index of the table: the option `on_conflict=`."""

    FAIL = "fail"
    IGNORE = "ignore"
    DEAD_LETTER = "dead-letter"

    @property
    def becomes(self) -> str:
        return "they are dead letters" if self is OnConflict.DEAD_LETTER else "they are left out"


def unfit_policy(uid: str, policy: OnConflict, key: Sequence[str], letters: str | None) -> TidegateError | None:
    """The violations of a policy at the start. `letters`: the table of dead letters in the same database."""
    if policy is OnConflict.FAIL:
        return None
    if key:
        expected, found = "no key: on_conflict is for rows that are appended", f"key={list(key)}"
    elif policy is OnConflict.DEAD_LETTER and letters is None:
        expected = "a query with dead_letters=SQLiteSink(...) into the same database, without a key"
        found = "none: rows that the commit finds can only go where it commits as one"
    else:
        return None
    return unfit_for_dead_letters(expected, found, f"sink {uid!r}, on_conflict={policy.value!r}")


class Inserts:
    """Takes the rows of an epoch's stages into a table, inside an open transaction.

    `attempt`: any attempt of the epoch. `upsert`: the clause of a table with a key. `letters`: the table of dead
    letters in the same database, for DEAD_LETTER.
    """

    def __init__(
        self,
        target: sqlite3.Connection,
        table: str,
        attempt: Attempt,
        *,
        upsert: str = "",
        policy: OnConflict = OnConflict.FAIL,
        letters: str | None = None,
    ) -> None:
        self._target = target
        self._table = table
        self._attempt = attempt
        # Not OR IGNORE: that would also drop rows with a broken NOT NULL or CHECK.
        self._clause = "ON CONFLICT DO NOTHING" if policy is OnConflict.IGNORE else upsert
        self._policy = policy
        self._letters = letters

    def take(self, schema: str) -> int:
        """Take the rows of one stage, in their order. Returns the number of rows that are left out because of a
        conflict.

        Raises ROW_CONFLICT, with the row, for a row that the policy does not cover.
        """
        ((rows,),) = self._target.execute(f"SELECT count(*) FROM {schema}.rows")
        self._target.execute("SAVEPOINT stage")
        try:
            taken = self._target.execute(f"{self._insert(schema)} WHERE true ORDER BY rowid {self._clause}").rowcount
        except sqlite3.IntegrityError:
            self._target.execute("ROLLBACK TO stage")
            taken = rows - self._one_by_one(schema)
        self._target.execute("RELEASE stage")
        return rows - taken if self._policy is not OnConflict.FAIL else 0

    def _one_by_one(self, schema: str) -> int:
        """Take each row by itself, to find the rows that the table refuses. Returns the number of new dead letters."""
        dead = 0
        for (row,) in self._target.execute(f"SELECT rowid FROM {schema}.rows ORDER BY rowid").fetchall():
            try:
                self._target.execute(f"{self._insert(schema)} WHERE rowid = ? {self._clause}", (row,))
            except sqlite3.IntegrityError as error:
                if self._policy is not OnConflict.DEAD_LETTER or self._letters is None:
                    raise self._conflict(str(error), self._json(schema, row)) from None
                self._bury(self._letters, str(error), self._json(schema, row))
                dead += 1
        return dead

    def _insert(self, schema: str) -> str:
        names = names_in(self._target, schema)
        columns = ", ".join(positions(names))
        return f"INSERT INTO main.{quoted(self._table)} ({list_of(names)}) SELECT {columns} FROM {schema}.rows"

    def _bury(self, letters: str, reason: str, row: str) -> None:
        sink = self._attempt.sink
        values = (sink.query, sink.sink, self._attempt.epoch, Code.ROW_CONFLICT.label, reason, row)
        into = f"main.{quoted(letters)} ({list_of(COLUMNS)})"
        self._target.execute(f"INSERT INTO {into} VALUES ({', '.join('?' * len(values))})", values)

    def _json(self, schema: str, row: int) -> str:
        """The row in the form for the table. Values without a JSON number are texts."""
        found = self._target.execute(f"SELECT * FROM {schema}.rows WHERE rowid = ?", (row,)).fetchone()
        values = zip(names_in(self._target, schema), found, strict=True)
        return msgspec.json.encode({name: _in_json(value) for name, value in values if value is not None}).decode()

    def _conflict(self, reason: str, row: str) -> TidegateError:
        found = f"{reason}, by the row {shortened(SECRETS.hide(row), DETAIL_AT_MOST)}"
        remedy = 'Correct the table, or set on_conflict="ignore" or on_conflict="dead-letter"'
        return row_conflict(self._attempt, self._table, found, remedy)


def _in_json(value: object) -> object:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
