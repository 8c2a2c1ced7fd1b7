"""The description of a PostgreSQL sink that a start writes, and the check of its server without the job's program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import psycopg

from tidegate.core.health import Finding, failed_by, ok, warn
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.postgres.check import server_violations_of
from tidegate.sinks.postgres.declared import DeclaredPostgresSink
from tidegate.sinks.postgres.prepared import END_OLD, prepared_anywhere, room_of, told_of_old
from tidegate.sinks.postgres.protocol import CommitProtocol
from tidegate.sinks.postgres.server import Server, unusable


class PostgresTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a `PostgresSink`. `left_out`: the names of options that may hold secrets."""

    settings: dict[str, str]
    schema: str
    table: str
    key: tuple[str, ...]
    deleted: str | None = None
    invalid_text: str = "refuse"
    protocol: str = CommitProtocol.STAGED.value
    left_out: tuple[str, ...] = ()

    def __str__(self) -> str:
        by = ", by prepared transactions" if self.protocol == CommitProtocol.PREPARED.value else ""
        return f"{Server(self.settings)}, table {self.schema}.{self.table}{by}"


def target_of(sink: DeclaredPostgresSink) -> PostgresTarget:
    shown = sink.server.shown
    return PostgresTarget(
        settings=shown,
        schema=sink.schema,
        table=sink.table,
        key=sink.key,
        deleted=sink.deleted,
        invalid_text=sink.rules.invalid_text.value,
        protocol=sink.protocol.value,
        left_out=tuple(sorted(sink.server.settings.keys() - shown.keys())),
    )


def settings_of(target: PostgresTarget, put_in: Mapping[str, str]) -> dict[str, str]:
    """The settings, together with those that were left out."""
    return {**target.settings, **{name: put_in[name] for name in target.left_out}}


def probed(sink: DeclaredPostgresSink, what: str, plan: SinkPlan) -> Sequence[Finding]:
    """Server, database and rights as the sink would use them. Writes nothing; the table is not checked."""
    violations = server_violations_of(sink, plan)
    if violations:
        return [finding for each in violations for finding in failed_by(what, each)]
    try:
        with sink.server.connected() as connection:
            version = connection.info.parameter_status("server_version") or "unknown"
            off = [name for (name,) in connection.execute(_UNSAFE)]
            prepared = prepared_anywhere(connection)
            room = room_of(connection)
    except psycopg.Error as error:
        return [*failed_by(what, unusable(error, sink.server, sink.uid))]
    found = [ok(what, f"{sink.server} answers, version {version}; the user has the rights on schema {sink.schema!r}")]
    if off:
        told = f"{', '.join(off)} = off: committed rows may be lost when the server's machine loses its power"
        found.append(warn(what, told, "set it on in postgresql.conf, unless the data may be lost"))
    if sink.protocol is CommitProtocol.PREPARED:
        found.append(ok(what, f"max_prepared_transactions = {room}, of which {len(prepared)} are in use"))
    found += [warn(what, told, END_OLD) for told in told_of_old(prepared)]
    return found


_UNSAFE = """
SELECT name FROM pg_catalog.pg_settings WHERE name IN ('fsync', 'full_page_writes') AND setting = 'off' ORDER BY name
"""
