"""The table `_tidegate_ledger` in the target: one row for each sink and epoch, written in the transaction that takes
the epoch's rows. It is the only proof of the commit.

`committables` holds the digests of the epoch's transactions, sorted, one on each line. `digest` is the SHA-256 of
exactly this text (`epoch_digest`). So a single committable can be found in it without the others.
"""

from __future__ import annotations

import sqlite3

from tidegate.core.records import Position, SinkIdentity
from tidegate.sinks.standing import Entry

LEDGER = "_tidegate_ledger"

KEPT_ROWS = 100
"""Number of rows that are kept for each sink: the newest ones. Recovery needs only the last few epochs."""

CREATE_LEDGER = f"""
CREATE TABLE IF NOT EXISTS {LEDGER} (
    job TEXT NOT NULL, query TEXT NOT NULL, sink TEXT NOT NULL, job_id TEXT NOT NULL,
    generation INTEGER NOT NULL, epoch INTEGER NOT NULL, digest TEXT NOT NULL, committables TEXT NOT NULL,
    PRIMARY KEY (job, query, sink, generation, epoch)
)"""

_OF_SINK = "job = ? AND query = ? AND sink = ?"
_OF_JOB_ID = "query = ? AND sink = ? AND job_id = ?"
"""Under any job name: the job may have moved to another name."""
_NEWEST_FIRST = "ORDER BY generation DESC, epoch DESC LIMIT 1"


def record(target: sqlite3.Connection, identity: SinkIdentity, entry: Entry) -> None:
    """Write the row of an epoch inside the open transaction, and delete the oldest rows."""
    target.execute(f"INSERT INTO main.{LEDGER} VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*_sink(identity), *entry.row))
    target.execute(
        f"DELETE FROM main.{LEDGER} WHERE {_OF_SINK} AND (generation, epoch) <= "
        f"(SELECT generation, epoch FROM main.{LEDGER} WHERE {_OF_SINK} {_NEWEST_FIRST} OFFSET {KEPT_ROWS})",
        (*_sink(identity), *_sink(identity)),
    )


def entry_of(target: sqlite3.Connection, identity: SinkIdentity, epoch: int) -> Entry | None:
    """The row of one epoch in the identity's generation, of any job id."""
    row = target.execute(
        f"SELECT job_id, generation, epoch, digest, committables FROM main.{LEDGER}"
        f" WHERE {_OF_SINK} AND generation = ? AND epoch = ?",
        (*_sink(identity), identity.generation, epoch),
    ).fetchone()
    return None if row is None else Entry.of_row(*row)


def take_out(target: sqlite3.Connection, identity: SinkIdentity, epoch: int) -> None:
    """Remove the row of one epoch in the identity's generation, inside the open transaction."""
    target.execute(
        f"DELETE FROM main.{LEDGER} WHERE {_OF_SINK} AND generation = ? AND epoch = ?",
        (*_sink(identity), identity.generation, epoch),
    )


def newest_of(target: sqlite3.Connection, identity: SinkIdentity) -> Position | None:
    """The newest row of any generation, for this job's name or its id. None also if the ledger does not exist yet."""
    if not _is_there(target):
        return None
    row = target.execute(
        f"SELECT job_id, generation, epoch, digest FROM main.{LEDGER} WHERE {_OF_SINK} OR {_OF_JOB_ID} {_NEWEST_FIRST}",
        (*_sink(identity), *_mine(identity)),
    ).fetchone()
    if row is None:
        return None
    job_id, generation, epoch, digest = row
    return Position(job_id=job_id, generation=generation, epoch=epoch, digest=digest)


def remove(target: sqlite3.Connection, identity: SinkIdentity) -> None:
    """Remove the rows of a sink with the identity's job id, of all generations."""
    if _is_there(target):
        target.execute(f"DELETE FROM main.{LEDGER} WHERE {_OF_JOB_ID}", _mine(identity))


def _is_there(target: sqlite3.Connection) -> bool:
    found = target.execute("SELECT 1 FROM main.sqlite_master WHERE name = ?", (LEDGER,)).fetchone()
    return found is not None


def _sink(identity: SinkIdentity) -> tuple[str, str, str]:
    return identity.job, identity.query, identity.sink


def _mine(identity: SinkIdentity) -> tuple[str, str, str]:
    return identity.query, identity.sink, identity.job_id
