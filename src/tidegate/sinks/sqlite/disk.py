"""What SQLite's own syncs mean for the SQLite sink.

SQLite syncs by itself, inside COMMIT, and says `disk I/O error` when that fails. Some of these failures come after the
point where the transaction can be seen: the folder's sync behind the removal of the journal, the journal's sync where
it is emptied and kept, the log's sync in WAL mode. Then the transaction may be rolled back, and may also stand in the
memory of the machine, where a look finds the ledger row although a power loss would take it. So

* a `disk I/O error` of a sync is SyncFailed, final for this process, as in `tidegate.disk.durable`; under Python 3.10,
  which does not tell of what, each one is. A full disk at a sync is among them. A disk that is full before that says so
  in other words, and the commit is tried again.
* a ledger row that another process wrote is not believed because it is there. It is written again, in a transaction
  of this process (`make_durable`). In a journal mode with a rollback journal that transaction writes and ends a journal
  of its own; the database was synced before the older journal could end. In WAL mode all frames are then copied into
  the database, which SQLite syncs.

SQLite ignores one failure: that of the folder's sync when it begins a journal. Then a power loss in the middle of the
same transaction can leave a database that no journal rolls back. No program can see that.
"""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

from tidegate.core.records import SinkIdentity
from tidegate.disk.durable import refuse_if_failed, sync_failed, sync_folder
from tidegate.sinks.sqlite.ledger import entry_of, record, take_out
from tidegate.sinks.sqlite.stage import uri
from tidegate.sinks.standing import Entry

BUSY_TIMEOUT_SECONDS = 5.0
"""How long one commit waits for the write lock before it answers RETRY."""


@contextmanager
def connected(path: Path, mode: str = "rw") -> Generator[sqlite3.Connection]:
    """A connection to the database; a missing one is an error unless `mode` says "rwc". Never read-only: what a killed
    commit left has to be rolled back before anything is read.

    Raises sqlite3.Error, and SyncFailed for a sync that failed, now and whenever this process comes again.
    """
    refuse_if_failed(path)
    try:
        connection = sqlite3.connect(uri(path, mode), uri=True, isolation_level=None, timeout=BUSY_TIMEOUT_SECONDS)
        with closing(connection):
            # EXTRA and not FULL: in the default journal mode FULL does not sync the folder after the journal is
            # unlinked, and a power loss soon after would roll the commit back (sqlite.org/pragma.html).
            connection.execute("PRAGMA synchronous = EXTRA").close()
            yield connection
    except sqlite3.Error as error:
        if _is_of_a_sync(error):
            raise sync_failed(path, OSError(errno.EIO, f"SQLite: {error}")) from error
        raise


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
    """Write `entry`, which stands in the ledger, again, so that it and all before it are on the disk at return.

    Raises sqlite3.OperationalError where another connection holds that up.
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
    """Whether SQLite failed at a sync. A failed ROLLBACK must not hide why it was needed."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, sqlite3.Error) and "disk I/O error" in str(cause):
            code = getattr(cause, "sqlite_errorcode", None)  # from Python 3.11 on
            return code is None or code in _OF_A_SYNC
        cause = cause.__context__
    return False
