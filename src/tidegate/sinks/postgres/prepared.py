"""The prepared transactions of a server, as `pg_prepared_xacts` lists them, and the backends that are about to prepare
one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import psycopg
from psycopg import sql

from tidegate.sinks.postgres.names import PreparedName
from tidegate.sinks.postgres.server import LOCK_SECONDS, Session, run

_LOG = logging.getLogger("tidegate")
OLD_SECONDS = 600.0
"""A prepared transaction lives for about one epoch. One that is older than this is worth a look."""
_LOOK_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class PreparedNow:
    """A prepared transaction. `since`: in seconds since 1970. `name`: None if it is not of this library."""

    gid: str
    owner: str
    database: str
    since: float
    age_seconds: float
    name: PreparedName | None

    @property
    def is_old(self) -> bool:
        return self.age_seconds >= OLD_SECONDS


def prepared_here(connection: Session) -> list[PreparedNow]:
    """The prepared transactions of this database, of all users."""
    return _listed(run(connection, f"{_PREPARED} WHERE database = pg_catalog.current_database() ORDER BY gid"))


def prepared_anywhere(connection: Session) -> list[PreparedNow]:
    """The prepared transactions of all databases of the server: they share `max_prepared_transactions`."""
    return _listed(run(connection, f"{_PREPARED} ORDER BY gid"))


def _listed(rows: psycopg.Cursor[tuple[object, ...]]) -> list[PreparedNow]:
    return [
        PreparedNow(
            str(gid), str(owner), str(database), float(str(since)), float(str(age)), PreparedName.parsed(str(gid))
        )
        for gid, owner, database, since, age in rows
    ]


_PREPARED = """
SELECT gid, owner::text, database::text, extract(epoch FROM prepared)::float8,
    extract(epoch FROM pg_catalog.clock_timestamp() - prepared)::float8
FROM pg_catalog.pg_prepared_xacts"""


def room_of(connection: Session) -> int:
    """The most prepared transactions that the server keeps at a time: `max_prepared_transactions`."""
    found = run(connection, "SELECT pg_catalog.current_setting('max_prepared_transactions')::int").fetchone()
    return 0 if found is None else found[0]


def literal(gid: str) -> str:
    """An identifier in SQL: these statements take no parameters."""
    return sql.Literal(gid).as_string(None)


def commit_prepared(connection: Session, gid: str) -> None:
    """Raises psycopg.errors.UndefinedObject if there is no such transaction, which proves nothing."""
    run(connection, f"COMMIT PREPARED {literal(gid)}")


def roll_back(connection: Session, gid: str) -> None:
    """Roll back a prepared transaction. Nothing to do if there is none.

    Raises psycopg.errors.InsufficientPrivilege if another user has prepared it, psycopg.Error if another session is
    ending it and does not get on.
    """
    for is_last in _tries():
        try:
            run(connection, f"ROLLBACK PREPARED {literal(gid)}")
        except psycopg.errors.UndefinedObject:
            return
        except psycopg.errors.ObjectNotInPrerequisiteState:  # "busy": another session is ending it
            if is_last:
                raise
        else:
            return


def end_writers(connection: Session, name: PreparedName) -> None:
    """End the backends that write this transaction and have not prepared it: their processes were paused, or given up.

    Raises psycopg.OperationalError if one of them does not end.
    """
    for is_last in _tries():
        if not run(connection, _END_WRITERS, (name.application_name,)).fetchall():
            return
        if is_last:
            raise psycopg.OperationalError(f"a backend that writes {name} does not end")


_END_WRITERS = """
SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity
WHERE datname = pg_catalog.current_database() AND application_name = %s AND pid <> pg_catalog.pg_backend_pid()
"""


def name_backend(connection: Session, name: PreparedName) -> None:
    """Give this backend the name by which `end_writers` finds it, until the end of the open transaction."""
    run(connection, "SELECT pg_catalog.set_config('application_name', %s, true)", (name.application_name,))


def _tries() -> Iterator[bool]:
    """Pauses between tries, for as long as a commit waits for a lock. True with the last one."""
    end = time.monotonic() + LOCK_SECONDS
    while (now := time.monotonic()) < end:
        yield False
        time.sleep(min(_LOOK_SECONDS, end - now))
    yield True


# --- what is old --------------------------------------------------------------------------------------------


def told_of_old(prepared: Sequence[PreparedNow]) -> list[str]:
    """A line for each prepared transaction that is old."""
    return [
        f"prepared transaction {each.gid!r} of user {each.owner!r} in database {each.database!r} is"
        f" {each.age_seconds / 60:.0f} minutes old"
        for each in prepared
        if each.is_old
    ]


END_OLD = (
    "vacuum removes no row that was deleted since, and its locks stay, until it is ended. One of a job of tidegate is"
    " ended by a start of that job, or by `tidegate txn`; any other one by its own coordinator, or by hand with COMMIT"
    " PREPARED or ROLLBACK PREPARED"
)


def warn_of_old(connection: Session, uid: str) -> None:
    """Log a warning for each prepared transaction on the server that is old, of any user."""
    for line in told_of_old(prepared_anywhere(connection)):
        _LOG.warning("sink %s: %s: %s", uid, line, END_OLD, extra={"event": "PreparedTransactionOld"})
