"""Settings of a server with which a power loss takes rows that it has reported as committed."""

from __future__ import annotations

from tidegate.sinks.mysql.server import MySQLSession, variables


def unsafe_settings(connection: MySQLSession) -> list[str]:
    """Those that are set so, as `name=value`. Only an administrator can change them.

    Source: dev.mysql.com/doc/refman/8.4/en/innodb-parameters.html and replication-options-binary-log.html. With a
    binary log the server recovers by it what the engine had prepared, so it has to be on disk, too.
    """
    found = variables(connection, *_SAFE, "log_bin")
    of_log = {"sync_binlog"} if found.get("log_bin") != "ON" else set[str]()
    return [
        f"{name}={found[name]}"
        for name, safe in _SAFE.items()
        if name in found and name not in of_log and found[name].upper() not in safe
    ]


_SAFE = {
    "innodb_flush_log_at_trx_commit": ("1",),
    "sync_binlog": ("1",),
    "innodb_doublewrite": ("ON", "1", "TRUE", "FAST", "DETECT_AND_RECOVER"),
}

UNSAFE = "committed rows may be lost when the server's machine loses its power"
REMEDY = "set it to 1 (innodb_doublewrite=ON) in the server's configuration, unless the data may be lost"
