"""The checks before a start of a PostgreSQL sink. They check everything, and create and change nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import psycopg
import pyarrow as pa

from tidegate.core.errors import Code, TidegateError
from tidegate.sinks.arrow import fields_of
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.keyed import keys_not_in_rows, unfit_mark
from tidegate.sinks.postgres.declared import DeclaredPostgresSink
from tidegate.sinks.postgres.evidence import EVIDENCE
from tidegate.sinks.postgres.ledger import LEDGER, OWNERS
from tidegate.sinks.postgres.prepared_check import prepared_violations
from tidegate.sinks.postgres.protocol import CommitProtocol
from tidegate.sinks.postgres.server import Session, run, unusable
from tidegate.sinks.postgres.shape import RESERVED
from tidegate.sinks.postgres.table import TargetTable, table_of
from tidegate.sinks.postgres.types import created_as, holds
from tidegate.sinks.refusals import (
    complete_without_key,
    generated_by_table,
    key_without_index,
    mark_without_key,
    rows_without_values,
    table_without_columns,
    unfit_column_name,
    would_change_values,
)
from tidegate.sinks.value_table import Target, violations

OLDEST = 13
"""Older servers are not maintained any more."""
_NAME_BYTES_AT_MOST = 63
"""The server cuts off longer names without an error (NAMEDATALEN)."""
_COLUMNS_AT_MOST = 1_598
"""The server's 1,600, less the two of a stage."""


def violations_of(sink: DeclaredPostgresSink, plan: SinkPlan) -> list[TidegateError]:
    """Every violation, for rows of `plan.schema`."""
    check = _PostgresCheck(sink, plan)
    return [*check.settings(), *check.rows(), *check.server(with_table=True)]


def server_violations_of(sink: DeclaredPostgresSink, plan: SinkPlan) -> list[TidegateError]:
    """The violations that the server shows by itself. The rows of `plan` and the table are not checked."""
    return list(_PostgresCheck(sink, plan).server(with_table=False))


class _PostgresCheck:
    def __init__(self, sink: DeclaredPostgresSink, plan: SinkPlan) -> None:
        self._sink = sink
        self._plan = plan
        self._columns = [field for field in fields_of(plan.schema) if field.name != sink.deleted]
        self._where = f"sink {sink.uid!r}: table {sink.table!r} in schema {sink.schema!r}, {sink.server}"

    def settings(self) -> Iterator[TidegateError]:
        sink = self._sink
        if self._plan.mode == "complete" and not sink.key:
            yield complete_without_key(self._where)
        for what, name in (("table", sink.table), ("schema", sink.schema)):
            if flaw := _flaw_of_name(name):
                yield self._violation(Code.SINK_UNUSABLE, f"a name for the {what}", flaw, f"give another `{what}`")
        yield from keys_not_in_rows(sink.key, self._plan.schema, self._where)
        yield from self._mark()
        if sink.protocol is CommitProtocol.PREPARED and (sink.key or sink.deleted is not None):
            yield self._violation(
                Code.KEY_COLUMN,
                "a sink that appends, with protocol='prepared': of two tasks with a row of the same key, the second"
                " would wait for the commit of the first, which waits for the second",
                f"key={list(sink.key)}, deleted={sink.deleted!r}",
                "leave protocol= out: 'staged' replaces and deletes by key",
            )

    def _mark(self) -> Iterator[TidegateError]:
        deleted = self._sink.deleted
        if deleted is None:
            return
        if not self._sink.key or deleted in self._sink.key:
            yield mark_without_key(self._sink.key, deleted, self._where)
        yield from unfit_mark(deleted, self._plan.schema, self._where)

    def rows(self) -> Iterator[TidegateError]:
        yield from violations(pa.schema(self._columns), Target.POSTGRES, self._where)
        names = [field.name for field in self._columns]
        if not 0 < len(names) <= _COLUMNS_AT_MOST:
            yield self._violation(
                Code.SCHEMA_MISMATCH,
                f"1 to {_COLUMNS_AT_MOST} columns",
                f"{len(names)}",
                "choose others in select=[...], or put some of them into one with F.struct(...), which becomes jsonb",
            )
        for name, times in Counter(names).items():
            flaw = f"{times} columns named {name!r}" if times > 1 else _flaw_of_name(name)
            if flaw:
                yield unfit_column_name("PostgreSQL", flaw, self._where)

    # --- what the server shows -----------------------------------------------------------------------------

    def server(self, *, with_table: bool) -> Iterator[TidegateError]:
        found: list[TidegateError] = []
        try:
            with self._sink.server.connected() as connection:
                found += self._server(connection)
                found += self._schema(connection)
                found += prepared_violations(self._sink, self._plan, connection, self._where)
                if with_table:
                    found += self._table(connection)
        except psycopg.Error as error:
            found.append(unusable(error, self._sink.server, self._sink.uid))
        except TidegateError as error:
            found.append(error)
        yield from found

    def _server(self, connection: Session) -> Iterator[TidegateError]:
        version = connection.info.server_version // 10_000
        if version < OLDEST:
            yield self._violation(
                Code.SINK_UNUSABLE, f"PostgreSQL {OLDEST} or newer", f"PostgreSQL {version}", "upgrade the server"
            )
        encoding = connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            yield self._violation(
                Code.SINK_UNUSABLE,
                "a database in UTF8, which holds every text",
                f"one in {encoding}",
                "CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0, and give its name as dbname",
            )
        if _one(connection, "SELECT pg_catalog.pg_is_in_recovery()"):
            yield self._violation(
                Code.SINK_UNUSABLE,
                "the primary server",
                "a standby, which takes no rows",
                "give the primary as host, or several hosts and target_session_attrs=read-write",
            )

    def _schema(self, connection: Session) -> Iterator[TidegateError]:
        schema = self._sink.schema
        if not _one(connection, "SELECT count(*) FROM pg_catalog.pg_namespace WHERE nspname = %s", schema):
            yield self._violation(
                Code.SINK_UNUSABLE, f"a schema {schema!r}", "none", "CREATE SCHEMA, or give another `schema`"
            )
            return
        missing = [
            right
            for right in ("USAGE", "CREATE")
            if not _one(connection, "SELECT pg_catalog.has_schema_privilege(%s::text, %s::text)", schema, right)
        ]
        if missing:
            yield self._missing(connection, missing, f"schema {schema!r}, for tidegate's own tables")
        for table in (LEDGER, OWNERS, EVIDENCE):
            yield from self._rights(connection, table, ("SELECT", "INSERT", "UPDATE", "DELETE"))

    def _rights(self, connection: Session, table: str, wanted: tuple[str, ...]) -> Iterator[TidegateError]:
        held = run(connection, _RIGHTS, (list(wanted), self._sink.schema, table)).fetchone()
        if held is not None and held[0]:
            yield self._missing(connection, held[0], f"table {table!r}")

    def _missing(self, connection: Session, missing: list[str], what: str) -> TidegateError:
        user = connection.info.user
        return self._violation(
            Code.SINK_UNUSABLE,
            f"a user who may use {what}",
            f"{user!r} lacks {', '.join(missing)}",
            f'GRANT {", ".join(missing)} ON ... TO "{user}"',
        )

    def _table(self, connection: Session) -> Iterator[TidegateError]:
        table = table_of(connection, self._sink.schema, self._sink.table)
        if table is None:
            return
        if not table.is_table:
            yield self._violation(
                Code.SCHEMA_MISMATCH,
                "a table of this database, whose rows commit together with their evidence",
                f"a relation of another kind (relkind {table.kind!r})",
                "give the sink a table",
            )
            return
        if table.forgetful is not None:
            yield self._violation(
                Code.SINK_UNUSABLE,
                "a logged table of this database: a crash must not take rows whose evidence stays",
                f"{table.forgetful!r} is unlogged or foreign",
                "ALTER TABLE ... SET LOGGED, or give another table",
            )
        rights = ("SELECT", "INSERT", "UPDATE") if self._sink.key else ("INSERT",)
        yield from self._rights(
            connection, self._sink.table, rights if self._sink.deleted is None else (*rights, "DELETE")
        )
        yield from self._columns_of(table)
        if self._sink.key and frozenset(self._sink.key) not in table.unique:
            yield key_without_index(self._sink.key, self._where, ", not deferred, without a condition")

    def _columns_of(self, table: TargetTable) -> Iterator[TidegateError]:
        names = [field.name for field in self._columns]
        missing = sorted(set(names) - {each.name for each in table.columns})
        if missing:
            yield table_without_columns(missing, self._where)
        needed = [each.name for each in table.columns if each.not_null and not (each.fills_itself or each.generated)]
        if empty := sorted(set(needed) - set(names)):
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


def _is_known(kind: pa.DataType) -> bool:
    """False for a type that is refused for every table."""
    return not list(violations(pa.schema([("value", kind)]), Target.POSTGRES, ""))


def _flaw_of_name(name: str) -> str | None:
    if not name or "\0" in name:
        return repr(name)
    if len(name.encode()) > _NAME_BYTES_AT_MOST:
        return f"{name!r}, which is longer than {_NAME_BYTES_AT_MOST} bytes"
    return f"{name!r}: names that begin with {RESERVED} are tidegate's own" if name.startswith(RESERVED) else None


def _one(connection: Session, query: str, *values: str) -> object:
    found = run(connection, query, values or None).fetchone()
    return None if found is None else found[0]


_RIGHTS = """
SELECT pg_catalog.array_agg(wanted) FILTER (WHERE NOT pg_catalog.has_table_privilege(c.oid, wanted))
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN pg_catalog.unnest(%s::text[]) wanted
WHERE n.nspname = %s AND c.relname = %s
"""
