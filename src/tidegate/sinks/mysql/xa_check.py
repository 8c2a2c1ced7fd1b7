"""What a server must have for XA. Checked before a start; changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

from pymysql.err import MySQLError

from tidegate.core.errors import Code, TidegateError
from tidegate.sinks.mysql.branches import prepared_here
from tidegate.sinks.mysql.declared import DeclaredMySQLSink
from tidegate.sinks.mysql.protocol import MySQLProtocol
from tidegate.sinks.mysql.server import MySQLSession, is_set, variables
from tidegate.sinks.mysql.words import told

_OR_STAGED = "or leave protocol= out: 'staged' needs none"


def settings_against_xa(sink: DeclaredMySQLSink, where: str) -> Iterator[TidegateError]:
    """A prepared branch keeps the locks of its rows until the whole epoch is committed. So of two tasks with rows of
    one key the second would wait for the first one's commit, which waits for the second.
    """
    if sink.protocol is MySQLProtocol.XA and (sink.key or sink.deleted):
        yield TidegateError(
            Code.KEY_COLUMN,
            expected="no key= and no deleted= with protocol='xa', which appends",
            found=f"key={list(sink.key)}, deleted={sink.deleted!r}",
            where=where,
            next_step="leave protocol= out: 'staged' replaces and deletes rows by key",
        )


def server_against_xa(sink: DeclaredMySQLSink, connection: MySQLSession, where: str) -> Iterator[TidegateError]:
    """Every violation; none for a sink of the other protocol."""
    if sink.protocol is not MySQLProtocol.XA:
        return
    if clustered := cluster_of(connection):
        yield TidegateError(
            Code.SINK_UNUSABLE,
            expected="a server of its own, or with replicas, for protocol='xa'",
            found=f"a cluster: {', '.join(clustered)}; Galera has no XA, group replication does not keep branches",
            where=where,
            next_step="leave protocol= out: 'staged' needs no XA",
        )
        return
    try:
        prepared_here(connection)
    except MySQLError as error:
        yield TidegateError(
            Code.SINK_UNUSABLE,
            expected="a user who may list prepared branches (XA RECOVER)",
            found=told(error),
            where=where,
            next_step=f"GRANT XA_RECOVER_ADMIN ON *.* TO the sink's user, {_OR_STAGED}",
        )


def cluster_of(connection: MySQLSession) -> list[str]:
    """The settings that show a server of Galera or of group replication, as `name=value`."""
    found = variables(connection, "wsrep_on", "group_replication_group_name")
    return [f"{name}={value}" for name, value in found.items() if is_set(value)]
