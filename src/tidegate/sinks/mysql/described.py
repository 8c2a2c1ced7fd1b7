"""The description of a MySQL sink that a start writes, and the check of its server without the job's program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from pymysql.err import MySQLError

from tidegate.core.health import Finding, failed_by, ok, warn
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.mysql.check import server_violations_of, version_of
from tidegate.sinks.mysql.declared import DeclaredMySQLSink
from tidegate.sinks.mysql.durability import REMEDY, UNSAFE, unsafe_settings
from tidegate.sinks.mysql.protocol import MySQLProtocol
from tidegate.sinks.mysql.server import MySQLServer


class MySQLTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a `MySQLSink`. `left_out`: the names of options that may hold secrets."""

    settings: dict[str, str]
    table: str
    key: tuple[str, ...]
    deleted: str | None = None
    invalid_text: str = "refuse"
    protocol: str = MySQLProtocol.STAGED.value
    left_out: tuple[str, ...] = ()

    def __str__(self) -> str:
        by = ", by XA" if self.protocol == MySQLProtocol.XA.value else ""
        return f"{MySQLServer(self.settings)}, table {self.table}{by}"


def target_of(sink: DeclaredMySQLSink) -> MySQLTarget:
    shown = sink.server.shown
    return MySQLTarget(
        settings=shown,
        table=sink.table,
        key=sink.key,
        deleted=sink.deleted,
        invalid_text=sink.rules.invalid_text.value,
        protocol=sink.protocol.value,
        left_out=tuple(sorted(sink.server.settings.keys() - shown.keys())),
    )


def settings_of(target: MySQLTarget, put_in: Mapping[str, str]) -> dict[str, str]:
    """The settings, together with those that were left out."""
    return {**target.settings, **{name: put_in[name] for name in target.left_out}}


def probed(sink: DeclaredMySQLSink, what: str, plan: SinkPlan) -> Sequence[Finding]:
    """Server, database and rights as the sink would use them. Writes nothing; the table is not checked."""
    violations = server_violations_of(sink, plan)
    if violations:
        return [finding for each in violations for finding in failed_by(what, each)]
    try:
        with sink.server.connected() as connection:
            version, unsafe = version_of(connection), unsafe_settings(connection)
    except MySQLError:
        version, unsafe = "unknown", []
    found = [ok(what, f"{sink.server} answers, version {version}; the user has the rights on the database")]
    if unsafe:
        found.append(warn(what, f"{', '.join(unsafe)}: {UNSAFE}", REMEDY))
    return found
