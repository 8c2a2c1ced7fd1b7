"""The target table as the server describes it: columns, constraints of single rows, unique indexes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from tidegate.sinks.mysql.names import quoted
from tidegate.sinks.mysql.server import MySQLSession, ResultRows, run, variables

ENGINE = "InnoDB"
"""The only engine whose rows commit together with the ledger, and survive a crash."""


@dataclass(frozen=True, slots=True)
class MySQLColumn:
    """One column. `type`: the name of its type. `declared`: the type as SQL writes it. `characters` and `bytes`: most
    of them in a text or binary. `digits`, `places`: of a number. `fraction`: digits of a second. `charset`: of a text.

    `not_null`: it takes no NULL. `fills_itself`: it has a default or counts by itself. `generated`: rows must not have
    it.
    """

    name: str
    type: str
    declared: str
    characters: int | None = None
    bytes: int | None = None
    digits: int | None = None
    places: int | None = None
    fraction: int | None = None
    not_null: bool = False
    fills_itself: bool = False
    generated: bool = False
    charset: str = ""
    collation: str = ""

    @property
    def is_unsigned(self) -> bool:
        return "unsigned" in self.declared

    @property
    def charset_converts(self) -> bool:
        """True if a text has other bytes, or other characters, in this column."""
        return self.charset not in ("", "utf8mb4")

    @property
    def in_sql(self) -> str:
        """The column without its constraints. NULL is said: a TIMESTAMP might take its absence for a NOT NULL."""
        collation = f" CHARACTER SET {self.charset} COLLATE {self.collation}" if self.charset else ""
        return f"{quoted(self.name)} {self.declared}{collation} NULL"


@dataclass(frozen=True, slots=True)
class RowCheck:
    """A CHECK of the table: its expression, and the columns in it, in lower case."""

    expression: str
    columns: frozenset[str]


@dataclass(frozen=True, slots=True)
class MySQLTable:
    """`kind`: `BASE TABLE`, `VIEW`, ... `unique`: the columns, in lower case, of each unique index over whole columns.
    `largest_packet`: most bytes of a statement. Names of columns are equal in any case, as they are for the server.
    """

    name: str
    kind: str
    engine: str
    largest_packet: int
    columns: tuple[MySQLColumn, ...]
    checks: tuple[RowCheck, ...] = ()
    unique: tuple[frozenset[str], ...] = ()

    def column(self, name: str) -> MySQLColumn | None:
        return next((each for each in self.columns if each.name.lower() == name.lower()), None)

    def of(self, names: Sequence[str]) -> list[MySQLColumn]:
        """The columns of these names, in their order. Unknown names are left out."""
        return [column for name in names if (column := self.column(name)) is not None]

    def checks_on(self, names: Sequence[str]) -> list[str]:
        """The expressions of the checks that need no other columns than these."""
        known = {name.lower() for name in names}
        return [each.expression for each in self.checks if each.columns and each.columns <= known]


def table_of(connection: MySQLSession, table: str) -> MySQLTable | None:
    """The description of a table in the database of a connection; None if it does not exist."""
    found = [row for row in run(connection, _RELATION, (table,)) if _same(connection, str(row[0]), table)]
    if not found:
        return None
    name, kind, engine = (str(each or "") for each in found[0])
    given = variables(connection, "max_allowed_packet")
    return MySQLTable(
        name=name,
        kind=kind,
        engine=engine,
        largest_packet=int(given["max_allowed_packet"]),
        columns=tuple(_column(*row) for row in run(connection, _COLUMNS, (name, name))),
        checks=tuple(_checks(connection, name)),
        unique=tuple(_unique(run(connection, _UNIQUE, (name, name)))),
    )


def is_mariadb(connection: MySQLSession) -> bool:
    return "mariadb" in str(run(connection, "SELECT VERSION()")[0][0]).lower()


def _same(connection: MySQLSession, found: str, wanted: str) -> bool:
    """The description may find a table whose name differs in case, and which is another one."""
    if found == wanted:
        return True
    return variables(connection, "lower_case_table_names")["lower_case_table_names"] != "0"


def _column(*row: Any) -> MySQLColumn:
    name, kind, declared, characters, octets, digits, places, fraction, nullable, default, extra, expression, *texts = (
        row
    )
    charset, collation = (str(each or "") for each in texts)
    extras = str(extra or "").upper()
    generated = bool(expression) or bool(_GENERATED.search(extras))
    return MySQLColumn(
        name=str(name),
        type=str(kind).lower(),
        declared=_text(declared),
        characters=characters,
        bytes=octets,
        digits=digits,
        places=places,
        fraction=fraction,
        not_null=nullable == "NO",
        fills_itself=default is not None or "AUTO_INCREMENT" in extras or "DEFAULT_GENERATED" in extras,
        generated=generated,
        charset=charset,
        collation=collation,
    )


def _text(value: Any) -> str:
    """MySQL 8 gives some texts of its catalog as bytes."""
    return value.decode() if isinstance(value, bytes) else str(value)


def _checks(connection: MySQLSession, table: str) -> list[RowCheck]:
    of_mariadb = is_mariadb(connection)
    rows = run(connection, _CHECKS_OF_MARIADB if of_mariadb else _CHECKS_OF_MYSQL, (table,))
    clauses = [_text(clause) for (clause,) in rows]
    # MySQL gives the clause with its quotes escaped: `v` <> _utf8mb4\'bad\'
    plain = clauses if of_mariadb else [each.replace("\\'", "'") for each in clauses]
    return [
        RowCheck(each, frozenset(name.replace("``", "`").lower() for name in _NAMES.findall(each))) for each in plain
    ]


def _unique(rows: ResultRows) -> list[frozenset[str]]:
    """A part of a column, or an expression, makes an index that cannot find the row to replace."""
    found: list[frozenset[str]] = []
    for _, parts in groupby(rows, key=lambda row: row[0]):
        columns = [(name, length) for _, name, length in parts]
        if all(name is not None and length is None for name, length in columns):
            found.append(frozenset(str(name).lower() for name, _ in columns))
    return found


_GENERATED = re.compile(r"(STORED|VIRTUAL|PERSISTENT) GENERATED|^(STORED|VIRTUAL)\b")
_NAMES = re.compile(r"`((?:[^`]|``)+)`")
_OF_TABLE = "TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s AND CAST(TABLE_NAME AS BINARY) = CAST(%s AS BINARY)"
"""The catalog may compare names in any case, where tables may differ in case."""
_RELATION = """
SELECT TABLE_NAME, TABLE_TYPE, ENGINE FROM information_schema.TABLES
WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s
"""
_COLUMNS = f"""
SELECT COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, CHARACTER_MAXIMUM_LENGTH, CHARACTER_OCTET_LENGTH, NUMERIC_PRECISION,
    NUMERIC_SCALE, DATETIME_PRECISION, IS_NULLABLE, COLUMN_DEFAULT, EXTRA, GENERATION_EXPRESSION, CHARACTER_SET_NAME,
    COLLATION_NAME
FROM information_schema.COLUMNS WHERE {_OF_TABLE} ORDER BY ORDINAL_POSITION
"""
_UNIQUE = f"""
SELECT INDEX_NAME, COLUMN_NAME, SUB_PART FROM information_schema.STATISTICS
WHERE {_OF_TABLE} AND NON_UNIQUE = 0 ORDER BY INDEX_NAME, SEQ_IN_INDEX
"""
_CHECKS_OF_MARIADB = """
SELECT CHECK_CLAUSE FROM information_schema.CHECK_CONSTRAINTS
WHERE CONSTRAINT_SCHEMA = DATABASE() AND TABLE_NAME = %s ORDER BY CONSTRAINT_NAME
"""
_CHECKS_OF_MYSQL = """
SELECT c.CHECK_CLAUSE FROM information_schema.CHECK_CONSTRAINTS c JOIN information_schema.TABLE_CONSTRAINTS t
    ON t.CONSTRAINT_SCHEMA = c.CONSTRAINT_SCHEMA AND t.CONSTRAINT_NAME = c.CONSTRAINT_NAME
WHERE c.CONSTRAINT_SCHEMA = DATABASE() AND t.TABLE_NAME = %s AND t.CONSTRAINT_TYPE = 'CHECK' AND t.ENFORCED = 'YES'
ORDER BY c.CONSTRAINT_NAME
"""
