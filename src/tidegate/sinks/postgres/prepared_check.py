"""What a server and a table must have for prepared transactions. Checked before a start; changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.core.errors import Code, TidegateError
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.postgres.declared import DeclaredPostgresSink
from tidegate.sinks.postgres.prepared import prepared_anywhere, room_of
from tidegate.sinks.postgres.protocol import CommitProtocol
from tidegate.sinks.postgres.server import Session, run

_OR_STAGED = "or leave protocol= out: 'staged' needs none"


def prepared_violations(
    sink: DeclaredPostgresSink, plan: SinkPlan, connection: Session, where: str
) -> Iterator[TidegateError]:
    """Every violation; none for a sink of the other protocol."""
    if sink.protocol is CommitProtocol.PREPARED:
        yield from _room(plan, connection, where)
        yield from _table(sink, connection, where)


def _room(plan: SinkPlan, connection: Session, where: str) -> Iterator[TidegateError]:
    """Each task with rows keeps its transaction prepared until the whole epoch is decided. What this sink has left is
    ended by the start.
    """
    room = room_of(connection)
    others = [
        each for each in prepared_anywhere(connection) if each.name is None or not each.name.belongs_to(plan.identity)
    ]
    if room - len(others) < plan.tasks:
        beside = f", of which others use {len(others)}" if others else ""
        yield TidegateError(
            Code.SINK_UNUSABLE,
            expected=f"room for {plan.tasks} prepared transactions, one for each task of an epoch",
            found=f"max_prepared_transactions = {room}{beside}",
            where=where,
            next_step="raise max_prepared_transactions in postgresql.conf and restart the server, let an epoch have"
            f" fewer tasks (parallelism), {_OR_STAGED}",
        )


def _table(sink: DeclaredPostgresSink, connection: Session, where: str) -> Iterator[TidegateError]:
    """COPY into the table itself: the server refuses it under row security, and skips rules."""
    found = run(connection, _OF_TABLE, (sink.schema, sink.table)).fetchone()
    has_row_security, has_rules = (False, False) if found is None else found
    if has_row_security or has_rules:
        yield TidegateError(
            Code.SINK_UNUSABLE,
            expected="a table into which COPY writes as INSERT would, with protocol='prepared'",
            found="row security for this user" if has_row_security else "rules ON INSERT, which COPY does not apply",
            where=where,
            next_step="leave protocol= out: 'staged' inserts; or give the user BYPASSRLS, or make the rule a trigger",
        )


_OF_TABLE = """
SELECT pg_catalog.row_security_active(c.oid),
    EXISTS (SELECT 1 FROM pg_catalog.pg_rewrite r WHERE r.ev_class = c.oid AND r.ev_type = '3')
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p')
"""
