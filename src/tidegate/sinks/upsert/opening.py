"""The database that a URL or a path names."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from tidegate.core.errors import Code, TidegateError
from tidegate.sinks.sqlite.sink import SQLiteSink
from tidegate.sinks.upsert.database import UpsertDatabase
from tidegate.sinks.upsert.declared import DeclaredUpsertSink


def database_of(declared: DeclaredUpsertSink) -> UpsertDatabase:
    """Raises OPTION_UNKNOWN for another URL, or for options that its database does not have; EXTRA_MISSING if the
    client of its server is not installed. Errors quote no URL: it may hold a password.
    """
    url = os.fspath(declared.url)
    scheme = url.partition("://")[0].lower() if "://" in url else ""
    if not scheme and (isinstance(declared.url, os.PathLike) or "=" not in url):
        return _sqlite(declared, url)
    opened = _BY_SCHEME.get(scheme)
    if opened is None:
        raise _unfit(
            declared,
            "postgresql://..., mysql://..., mariadb://..., or the path of a SQLite database",
            f"{scheme}://..." if scheme else "a text with '=' in it: a path with one must be a pathlib.Path",
        )
    return opened(declared, url)


def _sqlite(declared: DeclaredUpsertSink, path: str) -> UpsertDatabase:
    from tidegate.sinks.upsert.on_sqlite import SQLiteUpserts

    if declared.schema is not None or declared.options:
        raise _unfit(declared, "no schema= and no options= for SQLite", f"options {sorted(declared.options)}")
    return SQLiteUpserts(SQLiteSink(declared.uid, path, **declared.shared), declared.deleted)


def _postgres(declared: DeclaredUpsertSink, url: str) -> UpsertDatabase:
    from tidegate.sinks.postgres.sink import PostgresSink
    from tidegate.sinks.upsert.on_postgres.database import PostgresUpserts

    return PostgresUpserts(
        PostgresSink(
            declared.uid,
            url,
            schema="public" if declared.schema is None else declared.schema,
            deleted=declared.deleted,
            options=declared.options,
            **declared.shared,
        )
    )


def _mysql(declared: DeclaredUpsertSink, url: str) -> UpsertDatabase:
    from tidegate.sinks.mysql.sink import MySQLSink
    from tidegate.sinks.upsert.on_mysql.database import MySQLUpserts

    if declared.schema is not None:
        raise _unfit(declared, "no schema= for MySQL: the URL names the database", f"schema={declared.schema!r}")
    settings = {**_settings_of(declared, url), **declared.options}
    host, database = str(settings.pop("host", "localhost")), str(settings.pop("database", ""))
    return MySQLUpserts(
        MySQLSink(declared.uid, host, database=database, deleted=declared.deleted, options=settings, **declared.shared)
    )


def _settings_of(declared: DeclaredUpsertSink, url: str) -> dict[str, str | int]:
    """The parts of `mysql://user:password@host:port/database`, percent-encoded where necessary."""
    try:
        parts: SplitResult = urlsplit(url)
        found = {
            "host": parts.hostname,
            "port": parts.port,
            "user": parts.username,
            "password": parts.password,
            "database": parts.path.removeprefix("/"),
        }
    except ValueError:
        parts, found = SplitResult("", "", "", "", ""), {}
    if not found or parts.query or parts.fragment:
        raise _unfit(declared, "mysql://user@host:port/database, and other settings in options={...}", "another form")
    return {name: unquote(value) if isinstance(value, str) else value for name, value in found.items() if value}


def _unfit(declared: DeclaredUpsertSink, expected: str, found: str) -> TidegateError:
    return TidegateError(
        Code.OPTION_UNKNOWN,
        expected=expected,
        found=found,
        where=f"sink {declared.uid!r}",
        next_step='for example UpsertSink("totals", "postgresql://db.example/shop", table="totals", key="customer")',
    )


_BY_SCHEME: Final[Mapping[str, Callable[[DeclaredUpsertSink, str], UpsertDatabase]]] = {
    "postgresql": _postgres,
    "postgres": _postgres,
    "mysql": _mysql,
    "mariadb": _mysql,
}
