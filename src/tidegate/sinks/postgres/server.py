"""Connections to the server of a sink. They hold nothing over a transaction, so a pooler may stand in between."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, cast

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tidegate.core.errors import Code, TidegateError
from tidegate.core.redaction import HIDDEN, may_be_secret
from tidegate.option_values import hide_secrets_of, is_kept_elsewhere, resolved
from tidegate.sinks.postgres.words import remedy_of, told

Session = psycopg.Connection[tuple[Any, ...]]

LOCK_SECONDS = 10
"""How long a commit waits for a lock before it answers RETRY."""
IDLE_SECONDS = 60
"""After this time the server ends the commit of a driver that was paused within it, and so frees its locks."""

_DEFAULTS: Mapping[str, str] = {
    "application_name": "tidegate",
    "connect_timeout": "10",
    # A server or a network that is gone is noticed after a minute, also while a statement runs.
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
_NO_SECRET = frozenset({"passfile"})
"""Where a password is; its name sounds like one."""


@dataclass(frozen=True)
class Server:
    """The settings of libpq that lead to a server: `host`, `dbname`, `user`, `password`, `sslmode`, ...

    A value `env:NAME` or `file:PATH` is read by each process that connects. Values are never shown.
    """

    settings: Mapping[str, str]

    def __post_init__(self) -> None:
        hide_secrets_of(self.settings)

    @classmethod
    def of(cls, conninfo: str, options: Mapping[str, str | int], uid: str) -> Server:
        """From a connection string of libpq (`host=db dbname=shop`, or a URL), and settings beside it.

        Raises OPTION_UNKNOWN if libpq does not know them. The error does not quote them: they may hold a password.
        """
        try:
            settings = conninfo_to_dict(conninfo, **{name: str(value) for name, value in options.items()})
            make_conninfo("", **settings)
        except psycopg.Error:
            raise TidegateError(
                Code.OPTION_UNKNOWN,
                expected="a connection string of libpq, and options with libpq's names",
                found=f"options {sorted(options)} and a string that is not shown, or one of them has no value",
                where=f"sink {uid!r}",
                next_step='for example "host=db.example dbname=shop user=etl", options={"password": "env:PGPASSWORD"}',
            ) from None
        return cls({name: str(value) for name, value in settings.items()})

    @property
    def shown(self) -> dict[str, str]:
        """The settings that may be written to a file, because they hold no secret."""
        return {name: value for name, value in self.settings.items() if _may_be_shown(name, value)}

    @contextmanager
    def connected(self) -> Generator[Session]:
        """A new connection, closed at the end. Each statement outside of `transaction` is one by itself.

        Raises psycopg.Error; OPTION_UNREADABLE if a value kept elsewhere cannot be read.
        """
        given = {name: resolved(name, value) for name, value in self.settings.items()}
        connect = cast("Any", psycopg.connect)  # its settings are keywords of any name
        connection: Session = connect(
            **{**_DEFAULTS, **given},
            client_encoding="UTF8",
            autocommit=True,
            prepare_threshold=None,  # no prepared statement: behind a pooler the next one may reach another backend
        )
        with closing(connection):
            # In any other level the commit would look for evidence in a snapshot from before it had its lock.
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            connection.read_only = False
            yield connection

    def __str__(self) -> str:
        place = self.settings.get("host") or self.settings.get("hostaddr") or self.settings.get("service") or "default"
        port, name = self.settings.get("port"), self.settings.get("dbname")
        return f"PostgreSQL {place}{f':{port}' if port else ''}{f'/{name}' if name else ''}"

    def __repr__(self) -> str:
        return f"Server({self}, settings: {HIDDEN})"


@contextmanager
def transaction(connection: Session) -> Generator[None]:
    """One transaction that is on disk when it has committed, whatever the user's defaults are.

    The settings end with the transaction.
    """
    with connection.transaction():
        run(connection, _FOR_THIS_TRANSACTION)
        yield


def begin(connection: Session) -> None:
    """Begin a transaction with the settings of `transaction` that PREPARE TRANSACTION ends, or the end of the
    connection.
    """
    run(connection, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
    run(connection, _FOR_THIS_TRANSACTION)


def run(connection: Session, query: str, values: Sequence[object] | None = None) -> psycopg.Cursor[tuple[Any, ...]]:
    """Execute a statement that was put together from quoted names. Values are never part of its text."""
    return connection.execute(query.encode(), values)


_FOR_THIS_TRANSACTION = f"""
SELECT pg_catalog.set_config('lock_timeout', '{LOCK_SECONDS}s', true),
    pg_catalog.set_config('idle_in_transaction_session_timeout', '{IDLE_SECONDS}s', true),
    pg_catalog.set_config('statement_timeout', '0', true),
    pg_catalog.set_config('synchronous_commit',
        CASE pg_catalog.current_setting('synchronous_commit') WHEN 'off' THEN 'on'
        ELSE pg_catalog.current_setting('synchronous_commit') END, true)
"""
"""Without a limit on a statement: a large epoch that is cut off would be cut off at each try."""


@contextmanager
def reached(server: Server, uid: str) -> Generator[Session]:
    """A connection to the server of a sink. An error of the server ends the run: SINK_UNUSABLE."""
    try:
        with server.connected() as connection:
            yield connection
    except psycopg.Error as error:
        raise unusable(error, server, uid) from None


def unusable(error: psycopg.Error, server: Server, uid: str) -> TidegateError:
    """The error of a server that cannot be used as it is."""
    return TidegateError(
        Code.SINK_UNUSABLE,
        expected="a PostgreSQL server that answers and lets this user write",
        found=told(error),
        where=f"sink {uid!r}: {server}",
        next_step=remedy_of(error),
    )


def _may_be_shown(name: str, value: str) -> bool:
    return is_kept_elsewhere(value) or name in _NO_SECRET or not may_be_secret(name)
