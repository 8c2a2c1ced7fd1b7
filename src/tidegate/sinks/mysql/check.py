"""The checks before a start of a MySQL sink. They check everything, and create and change nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
from pymysql.err import MySQLError

from tidegate.core.errors import Code, TidegateError
from tidegate.sinks.arrow import fields_of
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.keyed import keys_not_in_rows, unfit_mark
from tidegate.sinks.mysql.declared import DeclaredMySQLSink
from tidegate.sinks.mysql.evidence import EVIDENCE
from tidegate.sinks.mysql.ledger import LEDGER, OWNERS
from tidegate.sinks.mysql.names import RESERVED
from tidegate.sinks.mysql.rights import missing_rights, user_of
from tidegate.sinks.mysql.server import MySQLSession, run, unusable, variables
from tidegate.sinks.mysql.table import ENGINE, MySQLTable, table_of
from tidegate.sinks.mysql.types import MOST_PLACES, created_as, has_too_many_places, holds, is_nested
from tidegate.sinks.mysql.xa_check import server_against_xa, settings_against_xa
from tidegate.sinks.refusals import (
    complete_without_key,
    generated_by_table,
    key_without_index,
    mark_without_key,
    rows_without_values,
    same_but_for_case,
    table_without_columns,
    unfit_column_name,
    would_change_values,
)
from tidegate.sinks.value_table import Target, violations

OLDEST = {"MySQL": (8, 0), "MariaDB": (10, 5)}
"""Older servers have no CHECK in their catalog, or are not maintained any more."""
_NAME_AT_MOST = 64
"""Characters (dev.mysql.com/doc/refman/8.4/en/identifier-length.html)."""
_COLUMNS_AT_MOST = 1_015
"""InnoDB's 1,017, less the two of a stage."""


def violations_of(sink: DeclaredMySQLSink, plan: SinkPlan) -> list[TidegateError]:
    """Every violation, for rows of `plan.schema`."""
    check = _MySQLCheck(sink, plan)
    return [*check.settings(), *check.rows(), *check.server(with_table=True)]


def server_violations_of(sink: DeclaredMySQLSink, plan: SinkPlan) -> list[TidegateError]:
    """The violations that the server shows by itself. The rows of `plan` and the table are not checked."""
    return list(_MySQLCheck(sink, plan).server(with_table=False))


class _MySQLCheck:
    def __init__(self, sink: DeclaredMySQLSink, plan: SinkPlan) -> None:
        self._sink = sink
        self._plan = plan
        self._columns = [field for field in fields_of(plan.schema) if field.name != sink.deleted]
        self._where = f"sink {sink.uid!r}: table {sink.table!r}, {sink.server}"

    def settings(self) -> Iterator[TidegateError]:
        sink = self._sink
        if self._plan.mode == "complete" and not sink.key:
            yield complete_without_key(self._where)
        for what, name in (("table", sink.table), ("database", sink.server.database)):
            if flaw := _flaw_of_name(name):
                yield self._violation(Code.SINK_UNUSABLE, f"a name for the {what}", flaw, f"give another `{what}`")
        yield from keys_not_in_rows(sink.key, self._plan.schema, self._where)
        yield from self._mark()
        yield from settings_against_xa(sink, self._where)

    def _mark(self) -> Iterator[TidegateError]:
        deleted = self._sink.deleted
        if deleted is None:
            return
        if not self._sink.key or deleted in self._sink.key:
            yield mark_without_key(self._sink.key, deleted, self._where)
        yield from unfit_mark(deleted, self._plan.schema, self._where)

    def rows(self) -> Iterator[TidegateError]:
        yield from violations(pa.schema(self._columns), Target.MYSQL, self._where)
        names = [field.name for field in self._columns]
        if not 0 < len(names) <= _COLUMNS_AT_MOST:
            yield self._violation(
                Code.SCHEMA_MISMATCH,
                f"1 to {_COLUMNS_AT_MOST} columns",
                f"{len(names)}",
                "choose others in select=[...], or put some of them into one with F.struct(...), which becomes JSON",
            )
        for name in dict.fromkeys(names):
            if flaw := _flaw_of_name(name):
                yield unfit_column_name("MySQL", flaw, self._where)
        if same := {name: times for name, times in Counter(map(str.lower, names)).items() if times > 1}:
            yield same_but_for_case(str(same), self._where)
        for field in self._columns:
            if has_too_many_places(field.type):
                yield self._violation(
                    Code.SCHEMA_MISMATCH,
                    f"a decimal with at most {MOST_PLACES} decimal places, in {field.name!r}",
                    str(field.type),
                    'cast it to another decimal in select=[...], or make it a string with .cast("string")',
                )
            if field.name in self._sink.key and is_nested(field.type):
                yield self._violation(
                    Code.KEY_COLUMN,
                    f"a plain value in the key column {field.name!r}: MySQL cannot index JSON",
                    str(field.type),
                    "take a field of it as key, or make it a string with F.to_json in select=[...]",
                )

    # --- what the server shows -----------------------------------------------------------------------------

    def server(self, *, with_table: bool) -> Iterator[TidegateError]:
        found: list[TidegateError] = []
        try:
            with self._sink.server.connected() as connection:
                found += self._server(connection)
                found += self._rights(connection)
                found += server_against_xa(self._sink, connection, self._where)
                if with_table:
                    found += self._tables(connection)
        except MySQLError as error:
            found.append(unusable(error, self._sink.server, self._sink.uid))
        except TidegateError as error:
            found.append(error)
        yield from found

    def _server(self, connection: MySQLSession) -> Iterator[TidegateError]:
        version = version_of(connection)
        kind = "MariaDB" if "mariadb" in version.lower() else "MySQL"
        numbers = tuple(int(each) for each in re.findall(r"\d+", version.removeprefix("5.5.5-"))[:2])
        if numbers < OLDEST[kind]:
            wanted = " or ".join(f"{name} {major}.{minor}" for name, (major, minor) in OLDEST.items())
            yield self._violation(Code.SINK_UNUSABLE, f"{wanted}, or newer", version, "upgrade it")
        found = variables(connection, "read_only", "log_bin", "binlog_format")
        if found.get("read_only", "OFF") not in ("OFF", "0"):
            yield self._violation(
                Code.SINK_UNUSABLE,
                "a server that takes rows",
                f"a replica, or a server that is closed for them: read_only={found['read_only']}",
                "give the primary as host",
            )
        if found.get("log_bin") == "ON" and found.get("binlog_format") == "STATEMENT":
            yield self._violation(
                Code.SINK_UNUSABLE,
                "binlog_format=ROW or MIXED: the sink's transactions are READ COMMITTED",
                "binlog_format=STATEMENT",
                "SET GLOBAL binlog_format = 'ROW', and in the server's configuration",
            )

    def _rights(self, connection: MySQLSession) -> Iterator[TidegateError]:
        missing = missing_rights(connection)
        if missing:
            user, database = user_of(connection), self._sink.server.database
            yield self._violation(
                Code.SINK_UNUSABLE,
                f"a user with rights on the database {database!r}, for the table, staging tables and the ledger",
                f"{user} lacks {', '.join(missing)}",
                f"GRANT {', '.join(missing)} ON `{database}`.* TO {user}",
            )

    def _tables(self, connection: MySQLSession) -> Iterator[TidegateError]:
        for name in (LEDGER, OWNERS, EVIDENCE):
            own = table_of(connection, name)
            if own is not None and own.engine != ENGINE:
                yield self._other_engine(own)
        table = table_of(connection, self._sink.table)
        if table is None:
            return
        if table.kind != "BASE TABLE":
            yield self._violation(
                Code.SCHEMA_MISMATCH,
                "a table, whose rows commit together with their evidence",
                f"a {table.kind.lower()}",
                "give the name of a table",
            )
            return
        if table.engine != ENGINE:
            yield self._other_engine(table)
        yield from self._columns_of(table)
        if self._sink.key and frozenset(name.lower() for name in self._sink.key) not in table.unique:
            yield key_without_index(self._sink.key, self._where, ", over whole columns")

    def _other_engine(self, table: MySQLTable) -> TidegateError:
        return self._violation(
            Code.SINK_UNUSABLE,
            f"a table of {ENGINE}: its rows commit together with their evidence, and survive a crash",
            f"{table.name!r} is of {table.engine}",
            f"ALTER TABLE `{table.name}` ENGINE={ENGINE}, or give another table",
        )

    def _columns_of(self, table: MySQLTable) -> Iterator[TidegateError]:
        names = [field.name for field in self._columns]
        if missing := sorted(name for name in names if table.column(name) is None):
            yield table_without_columns(missing, self._where)
        given = {name.lower() for name in names}
        needed = [each.name for each in table.columns if each.not_null and not (each.fills_itself or each.generated)]
        if empty := sorted(name for name in needed if name.lower() not in given):
            yield rows_without_values(empty, self._where)
        for field in self._columns:
            column = table.column(field.name)
            if column is None:
                continue
            if column.generated:
                yield generated_by_table(field.name, self._where)
            elif _is_known(field.type) and not holds(column, field.type):
                wanted = created_as(field.type)
                yield would_change_values(field.name, wanted, field.type, column.declared, self._where)

    def _violation(self, code: Code, expected: str, found: str, next_step: str) -> TidegateError:
        return TidegateError(code, expected=expected, found=found, where=self._where, next_step=next_step)


def version_of(connection: MySQLSession) -> str:
    return str(run(connection, "SELECT VERSION()")[0][0])


def _is_known(kind: pa.DataType) -> bool:
    """False for a type that is refused for every table."""
    return not has_too_many_places(kind) and not list(violations(pa.schema([("value", kind)]), Target.MYSQL, ""))


def _flaw_of_name(name: str) -> str | None:
    """Source: dev.mysql.com/doc/refman/8.4/en/identifiers.html."""
    if not name or name.endswith(" ") or any(each == "\0" or each > "\uffff" for each in name):
        return f"{name!r}: a name is not empty, does not end with a space, and has no U+0000 and none above U+FFFF"
    if len(name) > _NAME_AT_MOST:
        return f"{name!r}, which is longer than {_NAME_AT_MOST} characters"
    return f"{name!r}: names that begin with {RESERVED} are tidegate's own" if name.startswith(RESERVED) else None
