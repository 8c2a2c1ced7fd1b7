"""How the SQLite sink treats failures of SQLite's own syncs.

SQLite syncs by itself, inside COMMIT, and reports `disk I/O error` if that fails. Some of these failures come after the
transaction can be seen: the sync of the folder after the journal is removed, the sync of a journal that is emptied and
kept, the sync of the log in WAL mode. Then the transaction may be rolled back. It may also exist only in the memory of
the machine: a reader finds the ledger row, but a power loss would remove it. So two rules hold:

* A `disk I/O error` of a sync is SyncFailed, final for this process, as in `tidegate.disk.durable`. Python 3.10 does
  not report the failed operation, so there each such error counts. A full disk at a sync is one of them. A disk that is
  full earlier gives another error, and the commit is retried.
* A ledger row of another process is not trusted because it is visible. This process writes it again, in a transaction
  of its own (`make_durable`). In a mode with a rollback journal this transaction writes and ends a journal of its own;
  the database was synced before the older journal could end. In WAL mode all frames are then copied into the database,
  which SQLite syncs.

SQLite ignores one failure: the sync of the folder when it begins a journal. After that, a power loss in the middle of
the same transaction can leave a database that no journal rolls back. No program can detect this.
"""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import SinkIdentity
from tidegate.disk.durable import refuse_if_failed, sync_failed, sync_folder
from tidegate.sinks.sqlite.declared import DeclaredSQLiteSink
from tidegate.sinks.sqlite.ledger import entry_of, record, take_out
from tidegate.sinks.sqlite.stage import uri
from tidegate.sinks.sqlite.words import remedy_of
from tidegate.sinks.standing import Entry

BUSY_TIMEOUT_SECONDS = 5.0
"""Seconds that one commit waits for the write lock before it answers RETRY."""


@contextmanager
def connected(path: Path, mode: str = "rw") -> Generator[sqlite3.Connection]:
    """Open the database. A missing database is an error unless `mode` is "rwc".

    It is never opened read-only, because SQLite must roll back the rest of a killed commit before it reads.

    Raises sqlite3.Error, and SyncFailed after a failed sync: now, and at each later call in this process.
    """
    refuse_if_failed(path)
    try:
        connection = sqlite3.connect(uri(path, mode), uri=True, isolation_level=None, timeout=BUSY_TIMEOUT_SECONDS)
        with closing(connection):
            # EXTRA, not FULL: in the default journal mode FULL does not sync the folder after the journal is unlinked,
            # so a power loss soon after would roll the commit back (sqlite.org/pragma.html).
            connection.execute("PRAGMA synchronous = EXTRA").close()
            yield connection
    except sqlite3.Error as error:
        if _is_of_a_sync(error):
            raise sync_failed(path, OSError(errno.EIO, f"SQLite: {error}")) from error
        raise


@contextmanager
def reached(sink: DeclaredSQLiteSink, mode: str = "rw") -> Generator[sqlite3.Connection]:
    """A connection to the database of a sink. An error of SQLite ends the run: SINK_UNUSABLE."""
    try:
        with connected(sink.path, mode) as target:
            yield target
    except sqlite3.Error as error:
        raise TidegateError(
            Code.SINK_UNUSABLE,
            expected="a SQLite database that can be opened and written",
            found=str(error),
            where=f"sink {sink.uid!r}: {sink.path}",
            next_step=remedy_of(error, sink.path),
        ) from None


@contextmanager
def transaction(target: sqlite3.Connection) -> Generator[None]:
    """One transaction, with the write lock from its begin."""
    target.execute("BEGIN IMMEDIATE")
    try:
        yield
        target.execute("COMMIT")
    finally:
        if target.in_transaction:
            target.execute("ROLLBACK")


def make_durable(target: sqlite3.Connection, path: Path, identity: SinkIdentity, entry: Entry) -> None:
    """Write an existing `entry` of the ledger again, so that it and all earlier entries are on disk at return.

    Raises sqlite3.OperationalError if another connection blocks this.
    """
    with transaction(target):
        if entry_of(target, identity, entry.epoch) == entry:
            take_out(target, identity, entry.epoch)
            record(target, identity, entry)
    busy, *_ = target.execute("PRAGMA main.wal_checkpoint(FULL)").fetchone()
    if busy:
        raise sqlite3.OperationalError("a reader holds up the checkpoint of the write-ahead log")
    sync_folder(path.parent)


_OF_A_SYNC = frozenset({1034, 1290})
"""SQLITE_IOERR_FSYNC and SQLITE_IOERR_DIR_FSYNC."""


def _is_of_a_sync(error: BaseException) -> bool:
    """True if SQLite failed at a sync. A failed ROLLBACK must not hide the first error."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, sqlite3.Error) and "disk I/O error" in str(cause):
            code = getattr(cause, "sqlite_errorcode", None)  # from Python 3.11 on
            return code is None or code in _OF_A_SYNC
        cause = cause.__context__
    return False
