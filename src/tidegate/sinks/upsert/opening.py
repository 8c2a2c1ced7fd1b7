"""The database that a URL or a path names."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import SplitResult, unquote, urlsplit

from tidegate.core.errors import Code, TidegateError
from tidegate.sinks.sqlite.sink import SQLiteSink
from tidegate.sinks.upsert.database import UpsertDatabase


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The options of an `UpsertSink`. `schema`: None if it is not given."""

    uid: str
    url: str | os.PathLike[str]
    table: str
    key: tuple[str, ...]
    schema: str | None
    deleted: str | None
    invalid_text: str
    options: Mapping[str, Any]
    delivery: str | None

    @property
    def shared(self) -> dict[str, Any]:
        """The options that the plain sinks of all databases have."""
        return {"table": self.table, "key": self.key, "invalid_text": self.invalid_text, "delivery": self.delivery}


def database_of(target: Target) -> UpsertDatabase:
    """Raises OPTION_UNKNOWN for another URL, or for options that its database does not have; EXTRA_MISSING if the
    client of its server is not installed. Errors quote no URL: it may hold a password.
    """
    url = os.fspath(target.url)
    scheme = url.partition("://")[0].lower() if "://" in url else ""
    if not scheme and (isinstance(target.url, os.PathLike) or "=" not in url):
        return _sqlite(target, url)
    opened = _BY_SCHEME.get(scheme)
    if opened is None:
        raise _unfit(
            target,
            "postgresql://..., mysql://..., mariadb://..., or the path of a SQLite database",
            f"{scheme}://..." if scheme else "a text with '=' in it: a path with one must be a pathlib.Path",
        )
    return opened(target, url)


def _sqlite(target: Target, path: str) -> UpsertDatabase:
    from tidegate.sinks.upsert.on_sqlite import SQLiteUpserts

    if target.schema is not None or target.options:
        raise _unfit(target, "no schema= and no options= for SQLite", f"options {sorted(target.options)}")
    return SQLiteUpserts(SQLiteSink(target.uid, path, **target.shared), target.deleted)


def _postgres(target: Target, url: str) -> UpsertDatabase:
    from tidegate.sinks.postgres.sink import PostgresSink
    from tidegate.sinks.upsert.on_postgres import PostgresUpserts

    return PostgresUpserts(
        PostgresSink(
            target.uid,
            url,
            schema="public" if target.schema is None else target.schema,
            deleted=target.deleted,
            options=target.options,
            **target.shared,
        )
    )


def _mysql(target: Target, url: str) -> UpsertDatabase:
    from tidegate.sinks.mysql.sink import MySQLSink
    from tidegate.sinks.upsert.on_mysql import MySQLUpserts

    if target.schema is not None:
        raise _unfit(target, "no schema= for MySQL: the URL names the database", f"schema={target.schema!r}")
    settings = {**_settings_of(target, url), **target.options}
    host, database = str(settings.pop("host", "localhost")), str(settings.pop("database", ""))
    return MySQLUpserts(
        MySQLSink(target.uid, host, database=database, deleted=target.deleted, options=settings, **target.shared)
    )


def _settings_of(target: Target, url: str) -> dict[str, str | int]:
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
        raise _unfit(target, "mysql://user@host:port/database, and other settings in options={...}", "another form")
    return {name: unquote(value) if isinstance(value, str) else value for name, value in found.items() if value}


def _unfit(target: Target, expected: str, found: str) -> TidegateError:
    return TidegateError(
        Code.OPTION_UNKNOWN,
        expected=expected,
        found=found,
        where=f"sink {target.uid!r}",
        next_step='for example UpsertSink("totals", "postgresql://db.example/shop", table="totals", key="customer")',
    )


_BY_SCHEME: Final[Mapping[str, Callable[[Target, str], UpsertDatabase]]] = {
    "postgresql": _postgres,
    "postgres": _postgres,
    "mysql": _mysql,
    "mariadb": _mysql,
}
