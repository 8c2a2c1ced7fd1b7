"""Connections to the server of a sink, with every setting that the sink relies on set and read back."""

from __future__ import annotations

import socket
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, cast

from pymysql.connections import Connection
from pymysql.cursors import Cursor
from pymysql.err import DataError, MySQLError, OperationalError

from tidegate.core.errors import Code, TidegateError
from tidegate.core.redaction import HIDDEN, may_be_secret
from tidegate.option_values import hide_secrets_of, is_kept_elsewhere, resolved
from tidegate.sinks.mysql.words import OF_A_ROW, remedy_of, told

if TYPE_CHECKING:
    _Base = Connection[Cursor]
else:
    _Base = Connection  # it is generic for type checkers only

MySQLSession: TypeAlias = "Connection[Cursor]"
ResultRows: TypeAlias = "list[tuple[Any, ...]]"

LOCK_SECONDS = 10
"""How long a commit waits for a lock before it answers RETRY."""
IDLE_SECONDS = 60
"""After this time the server ends the connection of a driver that was paused within its commit: its locks are free."""
TASK_IDLE_SECONDS = 86_400
"""A task holds no lock of others, and may compute for long between two batches."""

_STRICT = "STRICT_ALL_TABLES"
_SQL_MODE = f"{_STRICT},ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION"
"""Without strict mode the server truncates values with a mere warning. A zero is no request for AUTO_INCREMENT."""
_UTC = "+00:00"
_SEES_OTHER_NODES = 15
"""On Galera each look waits for what the other nodes have committed before it: reads, updates, inserts and SHOW alike
(galeracluster.com/library/reference/mysql-wsrep-options.html). A driver looks for rows that tasks wrote on other nodes.
"""


def _flag(text: str) -> bool:
    return {"true": True, "1": True, "false": False, "0": False}[text.lower()]


_OPTIONS: Mapping[str, Callable[[str], object]] = {
    **dict.fromkeys(("host", "database", "user", "unix_socket", "bind_address", "ssl_ca", "ssl_cert", "ssl_key"), str),
    "ssl_key_password": str,
    "password": str.encode,  # PyMySQL would take a text for Latin-1
    **dict.fromkeys(("port", "connect_timeout", "read_timeout", "write_timeout"), int),
    **dict.fromkeys(("local_infile", "ssl_disabled", "ssl_verify_cert", "ssl_verify_identity"), _flag),
}
_KEEPALIVE: Mapping[str, int] = {
    "TCP_KEEPIDLE": 30,
    "TCP_KEEPINTVL": 10,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": 60_000,
}
"""A server or a network that is gone is noticed after a minute, also while a statement runs."""


@dataclass(frozen=True)
class MySQLServer:
    """The settings that lead to a database: PyMySQL's `host`, `port`, `database`, `user`, `password`, `ssl_ca`, ...

    A value `env:NAME` or `file:PATH` is read by each process that connects. Values are never shown.
    """

    settings: Mapping[str, str]

    def __post_init__(self) -> None:
        hide_secrets_of(self.settings)

    @classmethod
    def of(cls, host: str, database: str, options: Mapping[str, str | int | bool], uid: str) -> MySQLServer:
        """Raises OPTION_UNKNOWN for an option that is none, or has no such value. The error does not quote values."""
        settings = {"host": host, "database": database, **{name: str(value) for name, value in options.items()}}
        for name, value in settings.items():
            if name not in _OPTIONS or not (is_kept_elsewhere(value) or _fits(name, value)):
                raise _unknown(name, uid)
        return cls(settings)

    @property
    def database(self) -> str:
        return self.settings["database"]

    @property
    def loads_files(self) -> bool:
        """True if the user allows LOAD DATA LOCAL."""
        return self._given().get("local_infile") is True

    @property
    def shown(self) -> dict[str, str]:
        """The settings that may be written to a file, because they hold no secret."""
        return {name: value for name, value in self.settings.items() if _may_be_shown(name, value)}

    @contextmanager
    def connected(self, *, idle_seconds: int | None = None, sends_files: bool = False) -> Generator[MySQLSession]:
        """A new connection, closed at the end. Each statement outside of `transaction` is one by itself.

        `sends_files`: the server may ask it for LOAD DATA LOCAL, if the user allows that. Raises MySQLError;
        OPTION_UNREADABLE if a value kept elsewhere cannot be read.
        """
        given = self._given()
        given["local_infile"] = sends_files and given.get("local_infile", False)
        connection = _opened(given)
        try:
            _prepare(connection, idle_seconds or IDLE_SECONDS)
            yield connection
        finally:
            with suppress(MySQLError):
                connection.close()

    def _given(self) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for name, value in self.settings.items():
            read = resolved(name, value)
            if not _fits(name, read):
                raise _unknown(name, "")
            given[name] = _OPTIONS[name](read)
        return given

    def __str__(self) -> str:
        place = self.settings.get("unix_socket") or self.settings["host"]
        port = self.settings.get("port")
        return f"MySQL {place}{f':{port}' if port else ''}/{self.database}"

    def __repr__(self) -> str:
        return f"MySQLServer({self}, settings: {HIDDEN})"


def _fits(name: str, value: str) -> bool:
    try:
        _OPTIONS[name](value)
    except (ValueError, KeyError):
        return False
    return True


def _unknown(name: str, uid: str) -> TidegateError:
    return TidegateError(
        Code.OPTION_UNKNOWN,
        expected=f"options {', '.join(sorted(_OPTIONS))}; numbers for port and timeouts, true or false for switches",
        found=f"option {name!r}, or its value, which is not shown",
        where=f"sink {uid!r}" if uid else f"the value of {name}, read by this process",
        next_step='for example options={"port": 3306, "user": "etl", "password": "env:SHOP_PASSWORD"}',
    )


def _may_be_shown(name: str, value: str) -> bool:
    return is_kept_elsewhere(value) or name == "ssl_key" or not may_be_secret(name)


# --- a connection ------------------------------------------------------------------------------------------


class _MySQLConnection(_Base):
    """Without options of TLS, PyMySQL encrypts where the server can, and compares no certificate. But it reads the
    certificates of the machine for each connection, which takes about 20 ms. Here a process reads them once.
    """

    _of_any_server: ClassVar[Any] = None

    def _create_ssl_ctx(self, sslp: Any) -> Any:
        make = cast("Any", super())._create_ssl_ctx
        if sslp:
            return make(sslp)
        if _MySQLConnection._of_any_server is None:
            _MySQLConnection._of_any_server = make({})
        return _MySQLConnection._of_any_server


def _opened(given: Mapping[str, Any]) -> MySQLSession:
    """Connect and log in. Raises MySQLError, whatever PyMySQL or Python raises."""
    make = cast("Any", _MySQLConnection)  # its settings are keywords of any name
    try:
        connection: MySQLSession = make(
            **given, charset="utf8mb4", autocommit=True, program_name="tidegate", defer_connect=True
        )
        connection.connect(None if given.get("unix_socket") else cast("Any", _dialled(given)))
    except (OSError, RuntimeError, ValueError) as error:
        # TLS files that cannot be read; a login that needs the package cryptography; a login that is no UTF-8.
        raise OperationalError(2003, f"no connection: {error}") from None
    return connection


def _dialled(given: Mapping[str, Any]) -> socket.socket:
    source = (given["bind_address"], 0) if "bind_address" in given else None
    address = given["host"] or "localhost", given.get("port", 3306)
    dialled = socket.create_connection(address, given.get("connect_timeout", 10), source)
    dialled.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    dialled.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if hasattr(socket, name):
            dialled.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return dialled


def _prepare(connection: MySQLSession, idle_seconds: int) -> None:
    """Set what the sink relies on, whatever the defaults of server and user are, and read it back.

    Source: dev.mysql.com/doc/refman/8.4/en/server-system-variables.html. READ COMMITTED: in any other level a commit
    would look for evidence in a snapshot from before it had its lock.
    """
    run(
        connection,
        f"SET SESSION sql_mode = '{_SQL_MODE}', time_zone = '{_UTC}', innodb_lock_wait_timeout = {LOCK_SECONDS},"
        f" lock_wait_timeout = {LOCK_SECONDS}, wait_timeout = {idle_seconds}, foreign_key_checks = 1,"
        " unique_checks = 1, sql_safe_updates = 0, sql_select_limit = DEFAULT, sql_big_selects = 1,"
        " completion_type = 0, max_sort_length = 65536",
    )
    run(connection, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE")
    found = variables(connection, "sql_mode", "time_zone", "tx_isolation", "transaction_isolation", "wsrep_on")
    level = found.get("transaction_isolation") or found.get("tx_isolation")
    if _STRICT not in found["sql_mode"].split(",") or found["time_zone"] != _UTC or level != "READ-COMMITTED":
        raise OperationalError(
            0,
            f"the settings of the session are not kept (a proxy in between?): sql_mode {found['sql_mode']!r}, {level}",
        )
    if is_set(found.get("wsrep_on", "")):
        run(connection, f"SET SESSION wsrep_sync_wait = {_SEES_OTHER_NODES}")


def variables(connection: MySQLSession, *names: str) -> dict[str, str]:
    """The values of these variables of the session, or of the server. A name that the server does not know is left
    out.
    """
    places = ", ".join(["%s"] * len(names))
    return dict(run(connection, f"SHOW SESSION VARIABLES WHERE Variable_name IN ({places})", names))


def is_set(value: str) -> bool:
    """True if a variable, as a server shows it, names something or is switched on."""
    return value.upper() not in ("", "OFF", "0")


def run(connection: MySQLSession, query: str, values: Sequence[object] | None = None) -> ResultRows:
    """Execute a statement that was put together from quoted names. Values are never part of its text."""
    with connection.cursor() as cursor:
        cursor.execute(query, None if values is None else tuple(values))
        return list(cursor.fetchall())


def run_exactly(connection: MySQLSession, statement: str | bytes) -> int:
    """Execute a statement that writes rows. Returns the number of rows that it touched.

    Raises DataError also for a mere warning that a value was changed: strict mode lets some of them pass.
    """
    with connection.cursor() as cursor:
        touched = cursor.execute(cast("Any", statement))
        changed = cast("Any", cursor).warning_count
    if changed:
        for _, code, text in cast("Any", connection).show_warnings():
            if code in OF_A_ROW:
                raise DataError(code, text)
    return touched


@contextmanager
def transaction(connection: MySQLSession) -> Generator[None]:
    """One transaction, which is rolled back by an error."""
    run(connection, "START TRANSACTION")
    try:
        yield
    except BaseException:
        with suppress(MySQLError):
            run(connection, "ROLLBACK")
        raise
    run(connection, "COMMIT")


@contextmanager
def reached(server: MySQLServer, uid: str) -> Generator[MySQLSession]:
    """A connection to the server of a sink. An error of the server ends the run: SINK_UNUSABLE."""
    try:
        with server.connected() as connection:
            yield connection
    except MySQLError as error:
        raise unusable(error, server, uid) from None


def unusable(error: MySQLError, server: MySQLServer, uid: str) -> TidegateError:
    """The error of a server that cannot be used as it is."""
    return TidegateError(
        Code.SINK_UNUSABLE,
        expected="a MySQL or MariaDB server that answers and lets this user write",
        found=told(error),
        where=f"sink {uid!r}: {server}",
        next_step=remedy_of(error),
    )
